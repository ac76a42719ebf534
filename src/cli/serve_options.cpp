// The options of `tamis serve`, under llama-server's names where it has them.
#include "cli/load_engine.h"
#include "cli/serve.h"

namespace tamis::cli {
namespace {

OptionSpec number(std::string_view names, std::string_view default_text, double minimum, double maximum,
                  std::string_view help) {
  return {.names = names,
          .kind = OptionKind::integer,
          .value_name = "N",
          .help = help,
          .default_text = default_text,
          .minimum = minimum,
          .maximum = maximum};
}

OptionSpec seconds(std::string_view names, std::string_view default_text, std::string_view help) {
  return {.names = names,
          .kind = OptionKind::real,
          .value_name = "SECONDS",
          .help = help,
          .default_text = default_text,
          .minimum = 0,
          .maximum = 1e6};
}

// As for other verbs, but -m may be given several times.
std::vector<OptionSpec> repeatable_models() {
  std::vector<OptionSpec> options = model_options();
  for (OptionSpec& option : options) {
    if (option.names == "-m,--model") {
      option.help =
          "a GGUF file, USER/REPO[:QUANT], or the name of a cached model; several times for several models; default: "
          "SmolLM2-135M-Instruct";
      option.is_repeatable = true;
    } else if (option.names == "--ram-budget") {
      option.help = "most memory to use, such as 6G, for all models together; default: what is free";
    }
  }
  return options;
}

std::vector<OptionSpec> access_options() {
  return {
      {.names = "--api-key-file",
       .kind = OptionKind::text,
       .value_name = "FILE",
       .help = "keys that clients must show one of, one a line"},
      {.names = "--cache-per-key",
       .help = "prompts share what was computed only among requests of one key: nobody can tell by the time of an "
               "answer what others asked"},
      {.names = "--tls-cert",
       .kind = OptionKind::text,
       .value_name = "FILE",
       .help = "serve HTTPS with this certificate and its chain (PEM)"},
      {.names = "--tls-key", .kind = OptionKind::text, .value_name = "FILE", .help = "the certificate's key (PEM)"},
      {.names = "--insecure", .help = "listen on other addresses than this machine's without keys"},
  };
}

std::vector<OptionSpec> guess_and_disk_options() {
  return {
      {.names = "--spec",
       .kind = OptionKind::text,
       .value_name = "KIND",
       .help = "guess tokens from the text so far (ngram), and by -md, while that pays; changes no answer; off: "
               "do not",
       .default_text = "ngram",
       .choices = {"ngram", "off"}},
      {.names = "-md,--model-draft",
       .kind = OptionKind::text,
       .value_name = "MODEL",
       .help = "a small model of the same vocabulary that guesses tokens, too"},
      {.names = "--kv-spill-dir",
       .kind = OptionKind::text,
       .value_name = "DIR",
       .help = "when --kv-bytes is full, answers that must wait leave their keys and values in a nameless file there; "
               "default: they are computed again"},
      {.names = "--kv-spill-bytes",
       .kind = OptionKind::text,
       .value_name = "SIZE",
       .help = "of that file at most; default: 4 × --kv-bytes"},
      {.names = "--slot-save-path",
       .kind = OptionKind::text,
       .value_name = "DIR",
       .help = "let clients keep conversations in files there: POST /slots/ID?action=save, restore or erase"},
      {.names = "--slot-save-bytes",
       .kind = OptionKind::text,
       .value_name = "SIZE",
       .help = "of all those files at most; default: 4 × the pages of the largest model that answered"},
  };
}

}  // namespace

std::vector<OptionSpec> serve_options() {
  return repeatable_models() +
         std::vector<OptionSpec>{
             context_option("context of one sequence, tokens; default: what the model was trained for, at most 4096"),
             batch_option(),
             {.names = "--host",
              .kind = OptionKind::text,
              .value_name = "ADDRESS",
              .help = "where to listen: an IP address, localhost, or unix:PATH",
              .default_text = "127.0.0.1"},
             number("--port", "8080", 0, 65535, "TCP port; 0 = any that is free"),
             {.names = "-a,--alias",
              .kind = OptionKind::text,
              .value_name = "NAME",
              .help = "the model's name to clients; default: the file's; with several -m once for each, in their order",
              .is_repeatable = true},
             {.names = "--strict-model", .help = "refuse requests that do not name the model"},
         } +
         access_options() +
         std::vector<OptionSpec>{
             number("--max-seqs,-np,--parallel", "32", 1, 65536, "answers computed in turn; others wait"),
             {.names = "--kv-bytes",
              .kind = OptionKind::text,
              .value_name = "SIZE",
              .help =
                  "memory for keys and values of all sequences, such as 2G; default: four contexts, at most half of "
                  "what is free"},
         } +
         guess_and_disk_options() +
         std::vector<OptionSpec>{
             number("--itl-target-ms", "250", 1, 60000, "longest time wanted between two tokens of an answer"),
             number("--max-batched-tokens", "", 1, 65536, "most tokens of one step; default: -b"),
             number("--max-queue", "", 1, 1000000, "requests that may wait; default: 4 × --max-seqs, at least 16"),
             seconds("--queue-timeout", "30", "a request that waited that long is refused; 0 = it waits"),
             seconds("--request-timeout", "0",
                     "a request that takes longer ends with what it has (finish_reason timeout); 0 = no limit"),
             seconds("--drain-timeout", "30", "time for running answers to end after a signal"),
             {.names = "--access-log",
              .kind = OptionKind::text,
              .value_name = "FORM",
              .help = "a line a request on stderr, without anything that users wrote",
              .default_text = "off",
              .choices = {"off", "text", "json"}},
             {.names = "--otlp-endpoint",
              .kind = OptionKind::text,
              .value_name = "URL",
              .help =
                  "send OpenTelemetry spans of requests, without texts, to this collector: OTLP over HTTP, JSON, to "
                  "URL/v1/traces"},
             {.names = "--config",
              .kind = OptionKind::text,
              .value_name = "FILE",
              .help =
                  "more of these options, as lines NAME = VALUE (flags: true or false); the command line comes first"},
             number("--max-connections", "1024", 1, 1000000, "open connections; one more is told 503"),
             number("--max-connections-per-ip", "64", 0, 1000000, "of one address; 0 = no such limit"),
         };
}

}  // namespace tamis::cli
