// Every architecture's spec function; the rows of registry.cpp. Only models/ knows architectures by name.
#pragma once

#include "models/arch.h"

namespace tamis {

ArchSpec llama();
ArchSpec qwen2();
ArchSpec qwen3();
ArchSpec qwen3moe();
ArchSpec gemma();
ArchSpec gemma2();
ArchSpec gemma3();
ArchSpec phi3();

}  // namespace tamis
