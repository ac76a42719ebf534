// The tensor table of a decoder-only transformer, from its BlockSpec. Names are GGUF's; shapes row-major.
#include <fmt/format.h>

#include "models/arch.h"

namespace tamis {
namespace {

class Table {
 public:
  void add(Slot slot, Role role, std::string_view name, std::array<Dim, 3> dims, std::string_view hf_name = "",
           When when = When::always, bool is_required = true) {
    rows_.push_back({slot, Part::weight, role, name, dims, is_required, when, hf_name});
  }
  void add_bias(Need need, Slot slot, std::string_view name, Dim width, std::string_view hf_name = "",
                When when = When::always) {
    if (need == Need::none) return;
    rows_.push_back({slot, Part::bias, Role::bias, name, {width}, need == Need::required, when, hf_name});
  }
  // A sidecar that multiplies the linear's output: written for types whose blocks leave a global factor outside
  // (NVFP4).
  void add_scale(Slot slot, std::string_view name, Dim width = Dim::one, When when = When::always) {
    rows_.push_back({slot, Part::scale, Role::scale, name, {width}, false, when, ""});
  }
  std::vector<TensorSpec> take() { return std::move(rows_); }

 private:
  std::vector<TensorSpec> rows_;
};

void add_model_wide(Table& table, const BlockSpec& block) {
  table.add(Slot::token_embd, Role::embedding, "token_embd.weight", {Dim::n_vocab, Dim::n_embd},
            "model.embed_tokens.weight");
  table.add(Slot::output_norm, Role::norm, "output_norm.weight", {Dim::n_embd}, "model.norm.weight");
  if (!block.is_always_tied) {
    table.add(Slot::output, Role::output, "output.weight", {Dim::n_vocab, Dim::n_embd}, "lm_head.weight", When::always,
              false);
    table.add_scale(Slot::output, "output.scale");
  }
  const auto add_factors = [&](Slot slot, std::string_view name) {
    table.add(slot, Role::rope_factors, name, {Dim::rope_pairs}, "", When::always, false);
  };
  if (block.attn.has_rope_freqs) add_factors(Slot::rope_freqs, "rope_freqs.weight");
  if (block.attn.has_rope_long_short) {
    add_factors(Slot::rope_long, "rope_factors_long.weight");
    add_factors(Slot::rope_short, "rope_factors_short.weight");
  }
}

void add_attention(Table& table, const BlockSpec& block) {
  const AttnSpec& attn = block.attn;
  table.add(Slot::attn_norm, Role::norm, "blk.%.attn_norm.weight", {Dim::n_embd},
            "model.layers.%.input_layernorm.weight");
  table.add(Slot::attn_q, Role::linear, "blk.%.attn_q.weight", {Dim::q_width, Dim::n_embd},
            "model.layers.%.self_attn.q_proj.weight", When::split_qkv);
  table.add(Slot::attn_k, Role::linear, "blk.%.attn_k.weight", {Dim::k_width, Dim::n_embd},
            "model.layers.%.self_attn.k_proj.weight", When::split_qkv);
  table.add(Slot::attn_v, Role::linear, "blk.%.attn_v.weight", {Dim::v_width, Dim::n_embd},
            "model.layers.%.self_attn.v_proj.weight", When::split_qkv);
  table.add(Slot::attn_qkv, Role::linear, "blk.%.attn_qkv.weight", {Dim::qkv_width, Dim::n_embd},
            "model.layers.%.self_attn.qkv_proj.weight", When::fused_qkv);
  table.add(Slot::attn_output, Role::linear, "blk.%.attn_output.weight", {Dim::n_embd, Dim::attn_width},
            "model.layers.%.self_attn.o_proj.weight");
  table.add_bias(attn.qkv_bias, Slot::attn_q, "blk.%.attn_q.bias", Dim::q_width, "model.layers.%.self_attn.q_proj.bias",
                 When::split_qkv);
  table.add_bias(attn.qkv_bias, Slot::attn_k, "blk.%.attn_k.bias", Dim::k_width, "model.layers.%.self_attn.k_proj.bias",
                 When::split_qkv);
  table.add_bias(attn.qkv_bias, Slot::attn_v, "blk.%.attn_v.bias", Dim::v_width, "model.layers.%.self_attn.v_proj.bias",
                 When::split_qkv);
  table.add_bias(attn.qkv_bias, Slot::attn_qkv, "blk.%.attn_qkv.bias", Dim::qkv_width,
                 "model.layers.%.self_attn.qkv_proj.bias", When::fused_qkv);
  table.add_bias(attn.output_bias, Slot::attn_output, "blk.%.attn_output.bias", Dim::n_embd,
                 "model.layers.%.self_attn.o_proj.bias");
  table.add_scale(Slot::attn_q, "blk.%.attn_q.scale", Dim::one, When::split_qkv);
  table.add_scale(Slot::attn_k, "blk.%.attn_k.scale", Dim::one, When::split_qkv);
  table.add_scale(Slot::attn_v, "blk.%.attn_v.scale", Dim::one, When::split_qkv);
  table.add_scale(Slot::attn_qkv, "blk.%.attn_qkv.scale", Dim::one, When::fused_qkv);
  table.add_scale(Slot::attn_output, "blk.%.attn_output.scale");
  if (attn.qk_norm != Norm::none) {
    table.add(Slot::q_norm, Role::norm, "blk.%.attn_q_norm.weight", {Dim::k_dim},
              "model.layers.%.self_attn.q_norm.weight");
    table.add(Slot::k_norm, Role::norm, "blk.%.attn_k_norm.weight", {Dim::k_dim},
              "model.layers.%.self_attn.k_norm.weight");
  }
  if (block.residual == Residual::sandwich) {
    table.add(Slot::attn_post_norm, Role::norm, "blk.%.post_attention_norm.weight", {Dim::n_embd},
              "model.layers.%.post_attention_layernorm.weight");
  }
}

void add_dense_ffn(Table& table, const BlockSpec& block) {
  if (block.moe.need == Need::required) return;
  if (block.ffn.is_fused_gate_up) {
    table.add(Slot::ffn_gate_up, Role::linear, "blk.%.ffn_up.weight", {Dim::n_ff_twice, Dim::n_embd},
              "model.layers.%.mlp.gate_up_proj.weight", When::dense);
    table.add_scale(Slot::ffn_gate_up, "blk.%.ffn_up.scale", Dim::one, When::dense);
  } else {
    table.add(Slot::ffn_gate, Role::linear, "blk.%.ffn_gate.weight", {Dim::n_ff, Dim::n_embd},
              "model.layers.%.mlp.gate_proj.weight", When::dense);
    table.add(Slot::ffn_up, Role::linear, "blk.%.ffn_up.weight", {Dim::n_ff, Dim::n_embd},
              "model.layers.%.mlp.up_proj.weight", When::dense);
    table.add_bias(block.ffn.bias, Slot::ffn_gate, "blk.%.ffn_gate.bias", Dim::n_ff,
                   "model.layers.%.mlp.gate_proj.bias", When::dense);
    table.add_bias(block.ffn.bias, Slot::ffn_up, "blk.%.ffn_up.bias", Dim::n_ff, "model.layers.%.mlp.up_proj.bias",
                   When::dense);
    table.add_scale(Slot::ffn_gate, "blk.%.ffn_gate.scale", Dim::one, When::dense);
    table.add_scale(Slot::ffn_up, "blk.%.ffn_up.scale", Dim::one, When::dense);
  }
  table.add(Slot::ffn_down, Role::linear, "blk.%.ffn_down.weight", {Dim::n_embd, Dim::n_ff},
            "model.layers.%.mlp.down_proj.weight", When::dense);
  table.add_bias(block.ffn.bias, Slot::ffn_down, "blk.%.ffn_down.bias", Dim::n_embd,
                 "model.layers.%.mlp.down_proj.bias", When::dense);
  table.add_scale(Slot::ffn_down, "blk.%.ffn_down.scale", Dim::one, When::dense);
}

void add_experts(Table& table, const BlockSpec& block) {
  if (block.moe.need == Need::none) return;
  table.add(Slot::router, Role::router, "blk.%.ffn_gate_inp.weight", {Dim::n_expert, Dim::n_embd},
            "model.layers.%.mlp.gate.weight", When::moe);
  table.add(Slot::gate_exps, Role::expert, "blk.%.ffn_gate_exps.weight", {Dim::n_expert, Dim::n_ff_expert, Dim::n_embd},
            "", When::moe);
  table.add(Slot::up_exps, Role::expert, "blk.%.ffn_up_exps.weight", {Dim::n_expert, Dim::n_ff_expert, Dim::n_embd}, "",
            When::moe);
  table.add(Slot::down_exps, Role::expert, "blk.%.ffn_down_exps.weight", {Dim::n_expert, Dim::n_embd, Dim::n_ff_expert},
            "", When::moe);
  table.add_scale(Slot::gate_exps, "blk.%.ffn_gate_exps.scale", Dim::n_expert, When::moe);
  table.add_scale(Slot::up_exps, "blk.%.ffn_up_exps.scale", Dim::n_expert, When::moe);
  table.add_scale(Slot::down_exps, "blk.%.ffn_down_exps.scale", Dim::n_expert, When::moe);
}

}  // namespace

std::vector<TensorSpec> decoder_tensors(const BlockSpec& block) {
  Table table;
  add_model_wide(table, block);
  add_attention(table, block);
  const bool is_sandwich = block.residual == Residual::sandwich;
  table.add(Slot::ffn_norm, Role::norm, "blk.%.ffn_norm.weight", {Dim::n_embd},
            is_sandwich ? "model.layers.%.pre_feedforward_layernorm.weight"
                        : "model.layers.%.post_attention_layernorm.weight");
  add_dense_ffn(table, block);
  add_experts(table, block);
  if (is_sandwich) {
    table.add(Slot::ffn_post_norm, Role::norm, "blk.%.post_ffw_norm.weight", {Dim::n_embd},
              "model.layers.%.post_feedforward_layernorm.weight");
  }
  return table.take();
}

std::string tensor_name(std::string_view pattern, uint32_t layer_idx) {
  const size_t at = pattern.find('%');
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer_idx, pattern.substr(at + 1));
}

}  // namespace tamis
