// Chat: messages → template → tokens → answer → messages. Content and scaffolding are tokenized apart
// (text/chat_template.h).
#include "tamis/chat.h"

#include "api/model_state.h"
#include "api/seam.h"
#include "base/utf8.h"
#include "engine/session.h"
#include "formats/json.h"

namespace tamis::api {

struct Chat::State {
  LanguageModel model;
  const ChatTemplate* chat_template = nullptr;  // the engine's
  std::vector<Message> messages;
  Session session;
};

namespace {

std::string well_formed(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence_length(text, i);
    if (length == 0) {
      out += "\xef\xbf\xbd";  // U+FFFD
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

Json messages_json(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const Message& message : messages) {
    Json item = Json::object();
    item.set("role", message.role);
    item.set("content", message.content);
    list.push_back(std::move(item));
  }
  return list;
}

tamis::Result<std::vector<Message>> parse_messages(std::string_view text) {
  TAMIS_TRY(const Json root, Json::parse(text));
  const Json* const list = root.find("messages");
  if (list == nullptr || !list->is_array())
    return fail(tamis::ErrorCode::format, "chat: expected an object with an array \"messages\"");
  std::vector<Message> messages;
  for (const Json& item : list->as_array()) {
    const Json* const role = item.find("role");
    const Json* const content = item.find("content");
    if (role == nullptr || content == nullptr || !role->is_string() || !content->is_string())
      return fail(tamis::ErrorCode::format, "chat: message {}: expected texts \"role\" and \"content\"",
                  messages.size());
    messages.push_back({role->as_string(), content->as_string()});
  }
  return messages;
}

ChatTemplateInput template_input(const std::vector<Message>& messages, const Tokenizer& tokenizer) {
  ChatTemplateInput input;
  input.variables.set("messages", messages_json(messages));
  input.variables.set("add_generation_prompt", true);
  const SpecialTokens& special = tokenizer.special();
  if (special.bos != kNoToken) input.bos_token = tokenizer.token_text(special.bos);
  if (special.eos != kNoToken) input.eos_token = tokenizer.token_text(special.eos);
  return input;
}

}  // namespace

Result<Chat> Chat::start(const LanguageModel& model, std::string_view system) {
  return at_seam([&]() -> tamis::Result<Chat> {
    const std::shared_ptr<const Engine>& engine = model.state()->engine;
    TAMIS_TRY(const ChatTemplate* const chat_template, engine->chat_template());
    Chat chat(std::make_shared<State>(State{model, chat_template, {}, Session(engine)}));
    chat.set_system(system);
    return chat;
  });
}

Result<Answer> Chat::send(std::string_view text, const GenerateOptions& options, const OnText& on_text) {
  std::vector<Message>& messages = state_->messages;
  const size_t n_before = messages.size();
  Result<Answer> answer = at_seam([&]() -> tamis::Result<Answer> {
    messages.push_back({"user", well_formed(text)});
    const LanguageModel::State& model = *state_->model.state();
    const Tokenizer& tokenizer = *model.engine->tokenizer();
    TAMIS_TRY(const std::vector<PromptPart> parts,
              state_->chat_template->render_parts(template_input(messages, tokenizer)));
    const std::vector<TokenId> prompt = encode_prompt(tokenizer, parts, model.parse_content_special);
    TAMIS_TRY(const GenerationOptions engine_options, to_engine(options, model));
    TAMIS_TRY(Generation generation, generate(state_->session, prompt, engine_options, to_engine(on_text)));
    messages.push_back({"assistant", generation.text});
    return from_engine(std::move(generation));
  });
  if (!answer) messages.resize(n_before);
  return answer;
}

const std::vector<Message>& Chat::messages() const { return state_->messages; }

void Chat::set_system(std::string_view text) {
  std::vector<Message>& messages = state_->messages;
  if (!messages.empty() && messages.front().role == "system") messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), {"system", well_formed(text)});
}

void Chat::clear() {
  std::erase_if(state_->messages, [](const Message& message) { return message.role != "system"; });
}

Result<std::string> Chat::render() const {
  const Tokenizer& tokenizer = *state_->model.state()->engine->tokenizer();
  return at_seam([&] { return state_->chat_template->render(template_input(state_->messages, tokenizer)); });
}

std::string Chat::to_json() const {
  Json out = Json::object();
  out.set("messages", messages_json(state_->messages));
  return out.dump(2) + "\n";
}

Status Chat::from_json(std::string_view text) {
  return at_seam([&]() -> tamis::Status {
    TAMIS_TRY(state_->messages, parse_messages(text));
    return {};
  });
}

}  // namespace tamis::api
