// The only place that reads the environment, and where every variable tamis looks at is listed.
#pragma once

#include <string>

namespace tamis::env {

std::string cpu_target();             // TAMIS_CPU_TARGET: forces one CPU target; the only variable that changes results
std::string cache_dir();              // ${XDG_CACHE_HOME:-~/.cache}/tamis
std::string hugging_face_hub();       // HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub
std::string hugging_face_endpoint();  // HF_ENDPOINT, else the public hub
std::string hugging_face_token();     // HF_TOKEN, else the token file of the HF home; "" when none
bool no_color();                      // NO_COLOR set and not empty

}  // namespace tamis::env
