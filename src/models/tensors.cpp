// The tensor table of a decoder-only transformer, from its BlockSpec. Names are GGUF's; shapes row-major.
#include <fmt/format.h>

#include "models/arch.h"

namespace tamis {
namespace {

struct Names {
  std::string_view gguf, hf;
};

class Table {
 public:
  void add(Slot slot, Role role, Names names, std::array<Dim, 3> dims, When when = When::always,
           bool is_required = true) {
    rows_.push_back({slot, Part::weight, role, names.gguf, dims, is_required, when, names.hf});
  }
  void add_bias(Need need, Slot slot, Names names, Dim width, When when = When::always) {
    if (need == Need::none) return;
    rows_.push_back({slot, Part::bias, Role::bias, names.gguf, {width}, need == Need::required, when, names.hf});
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
  table.add(Slot::token_embd, Role::embedding, {"token_embd.weight", "model.embed_tokens.weight"},
            {Dim::n_vocab, Dim::n_embd});
  table.add(Slot::output_norm, Role::norm, {"output_norm.weight", "model.norm.weight"}, {Dim::n_embd});
  if (!block.is_always_tied) {
    table.add(Slot::output, Role::output, {"output.weight", "lm_head.weight"}, {Dim::n_vocab, Dim::n_embd},
              When::always, false);
    table.add_scale(Slot::output, "output.scale");
  }
  const auto add_factors = [&](Slot slot, std::string_view name) {
    table.add(slot, Role::rope_factors, {name, ""}, {Dim::rope_pairs}, When::always, false);
  };
  if (block.attn.has_rope_freqs) add_factors(Slot::rope_freqs, "rope_freqs.weight");
  if (block.attn.has_rope_long_short) {
    add_factors(Slot::rope_long, "rope_factors_long.weight");
    add_factors(Slot::rope_short, "rope_factors_short.weight");
  }
}

void add_attention(Table& table, const BlockSpec& block) {
  const AttnSpec& attn = block.attn;
  table.add(Slot::attn_norm, Role::norm, {"blk.%.attn_norm.weight", "model.layers.%.input_layernorm.weight"},
            {Dim::n_embd});
  table.add(Slot::attn_q, Role::linear, {"blk.%.attn_q.weight", "model.layers.%.self_attn.q_proj.weight"},
            {Dim::q_width, Dim::n_embd}, When::split_qkv);
  table.add(Slot::attn_k, Role::linear, {"blk.%.attn_k.weight", "model.layers.%.self_attn.k_proj.weight"},
            {Dim::k_width, Dim::n_embd}, When::split_qkv);
  table.add(Slot::attn_v, Role::linear, {"blk.%.attn_v.weight", "model.layers.%.self_attn.v_proj.weight"},
            {Dim::v_width, Dim::n_embd}, When::split_qkv);
  table.add(Slot::attn_qkv, Role::linear, {"blk.%.attn_qkv.weight", "model.layers.%.self_attn.qkv_proj.weight"},
            {Dim::qkv_width, Dim::n_embd}, When::fused_qkv);
  table.add(Slot::attn_output, Role::linear, {"blk.%.attn_output.weight", "model.layers.%.self_attn.o_proj.weight"},
            {Dim::n_embd, Dim::attn_width});
  table.add_bias(attn.qkv_bias, Slot::attn_q, {"blk.%.attn_q.bias", "model.layers.%.self_attn.q_proj.bias"},
                 Dim::q_width, When::split_qkv);
  table.add_bias(attn.qkv_bias, Slot::attn_k, {"blk.%.attn_k.bias", "model.layers.%.self_attn.k_proj.bias"},
                 Dim::k_width, When::split_qkv);
  table.add_bias(attn.qkv_bias, Slot::attn_v, {"blk.%.attn_v.bias", "model.layers.%.self_attn.v_proj.bias"},
                 Dim::v_width, When::split_qkv);
  table.add_bias(attn.qkv_bias, Slot::attn_qkv, {"blk.%.attn_qkv.bias", "model.layers.%.self_attn.qkv_proj.bias"},
                 Dim::qkv_width, When::fused_qkv);
  table.add_bias(attn.output_bias, Slot::attn_output,
                 {"blk.%.attn_output.bias", "model.layers.%.self_attn.o_proj.bias"}, Dim::n_embd);
  table.add_scale(Slot::attn_q, "blk.%.attn_q.scale", Dim::one, When::split_qkv);
  table.add_scale(Slot::attn_k, "blk.%.attn_k.scale", Dim::one, When::split_qkv);
  table.add_scale(Slot::attn_v, "blk.%.attn_v.scale", Dim::one, When::split_qkv);
  table.add_scale(Slot::attn_qkv, "blk.%.attn_qkv.scale", Dim::one, When::fused_qkv);
  table.add_scale(Slot::attn_output, "blk.%.attn_output.scale");
  if (attn.qk_norm != Norm::none) {
    table.add(Slot::q_norm, Role::norm, {"blk.%.attn_q_norm.weight", "model.layers.%.self_attn.q_norm.weight"},
              {Dim::k_dim});
    table.add(Slot::k_norm, Role::norm, {"blk.%.attn_k_norm.weight", "model.layers.%.self_attn.k_norm.weight"},
              {Dim::k_dim});
  }
  if (block.residual == Residual::sandwich) {
    table.add(Slot::attn_post_norm, Role::norm,
              {"blk.%.post_attention_norm.weight", "model.layers.%.post_attention_layernorm.weight"}, {Dim::n_embd});
  }
}

void add_dense_ffn(Table& table, const BlockSpec& block) {
  if (block.moe.need == Need::required) return;
  if (block.ffn.is_fused_gate_up) {
    table.add(Slot::ffn_gate_up, Role::linear, {"blk.%.ffn_up.weight", "model.layers.%.mlp.gate_up_proj.weight"},
              {Dim::n_ff_twice, Dim::n_embd}, When::dense);
    table.add_scale(Slot::ffn_gate_up, "blk.%.ffn_up.scale", Dim::one, When::dense);
  } else {
    table.add(Slot::ffn_gate, Role::linear, {"blk.%.ffn_gate.weight", "model.layers.%.mlp.gate_proj.weight"},
              {Dim::n_ff, Dim::n_embd}, When::dense);
    table.add(Slot::ffn_up, Role::linear, {"blk.%.ffn_up.weight", "model.layers.%.mlp.up_proj.weight"},
              {Dim::n_ff, Dim::n_embd}, When::dense);
    table.add_bias(block.ffn.bias, Slot::ffn_gate, {"blk.%.ffn_gate.bias", "model.layers.%.mlp.gate_proj.bias"},
                   Dim::n_ff, When::dense);
    table.add_bias(block.ffn.bias, Slot::ffn_up, {"blk.%.ffn_up.bias", "model.layers.%.mlp.up_proj.bias"}, Dim::n_ff,
                   When::dense);
    table.add_scale(Slot::ffn_gate, "blk.%.ffn_gate.scale", Dim::one, When::dense);
    table.add_scale(Slot::ffn_up, "blk.%.ffn_up.scale", Dim::one, When::dense);
  }
  table.add(Slot::ffn_down, Role::linear, {"blk.%.ffn_down.weight", "model.layers.%.mlp.down_proj.weight"},
            {Dim::n_embd, Dim::n_ff}, When::dense);
  table.add_bias(block.ffn.bias, Slot::ffn_down, {"blk.%.ffn_down.bias", "model.layers.%.mlp.down_proj.bias"},
                 Dim::n_embd, When::dense);
  table.add_scale(Slot::ffn_down, "blk.%.ffn_down.scale", Dim::one, When::dense);
}

void add_experts(Table& table, const BlockSpec& block) {
  if (block.moe.need == Need::none) return;
  table.add(Slot::router, Role::router, {"blk.%.ffn_gate_inp.weight", block.moe.hf.router},
            {Dim::n_expert, Dim::n_embd}, When::moe);
  table.add(Slot::gate_exps, Role::expert, {"blk.%.ffn_gate_exps.weight", block.moe.hf.gate},
            {Dim::n_expert, Dim::n_ff_expert, Dim::n_embd}, When::moe);
  table.add(Slot::up_exps, Role::expert, {"blk.%.ffn_up_exps.weight", block.moe.hf.up},
            {Dim::n_expert, Dim::n_ff_expert, Dim::n_embd}, When::moe);
  table.add(Slot::down_exps, Role::expert, {"blk.%.ffn_down_exps.weight", block.moe.hf.down},
            {Dim::n_expert, Dim::n_embd, Dim::n_ff_expert}, When::moe);
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
  table.add(Slot::ffn_norm, Role::norm,
            {"blk.%.ffn_norm.weight", is_sandwich ? "model.layers.%.pre_feedforward_layernorm.weight"
                                                  : "model.layers.%.post_attention_layernorm.weight"},
            {Dim::n_embd});
  add_dense_ffn(table, block);
  add_experts(table, block);
  if (is_sandwich) {
    table.add(Slot::ffn_post_norm, Role::norm,
              {"blk.%.post_ffw_norm.weight", "model.layers.%.post_feedforward_layernorm.weight"}, {Dim::n_embd});
  }
  return table.take();
}

std::string tensor_name(std::string_view pattern, uint32_t layer_idx) {
  const size_t at = pattern.find('%');
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer_idx, pattern.substr(at + 1));
}

}  // namespace tamis
