// Builders named in onnx_ops.def; internal to this folder.
// Contract: each reads its inputs and attributes from the OpContext and sets the outputs; problems
// go to OpContext::error. Threading: as the Graph.
#pragma once

#include "models/onnx/op_context.h"

namespace modeld::onnx_import {

// onnx_ops_math.cc
void build_unary(OpContext& c);
void build_float_unary(OpContext& c);
void build_shaped_unary(OpContext& c);
void build_not(OpContext& c);
void build_arithmetic(OpContext& c);
void build_mod(OpContext& c);
void build_pow(OpContext& c);
void build_compare(OpContext& c);
void build_logic(OpContext& c);
void build_variadic(OpContext& c);
void build_prelu(OpContext& c);
void build_clip(OpContext& c);
void build_cast(OpContext& c);
void build_where(OpContext& c);
void build_reduce(OpContext& c);
void build_arg_extreme(OpContext& c);
void build_cumsum(OpContext& c);
void build_matmul(OpContext& c);
void build_gemm(OpContext& c);
void build_einsum(OpContext& c);
void build_softmax(OpContext& c);

// onnx_ops_shape.cc
void build_identity(OpContext& c);
void build_constant(OpContext& c);
void build_constant_of_shape(OpContext& c);
void build_shape(OpContext& c);
void build_size(OpContext& c);
void build_range(OpContext& c);
void build_reshape(OpContext& c);
void build_flatten(OpContext& c);
void build_transpose(OpContext& c);
void build_squeeze(OpContext& c);
void build_unsqueeze(OpContext& c);
void build_concat(OpContext& c);
void build_slice(OpContext& c);
void build_split(OpContext& c);
void build_gather(OpContext& c);
void build_gather_elements(OpContext& c);
void build_expand(OpContext& c);
void build_tile(OpContext& c);
void build_pad(OpContext& c);
void build_depth_to_space(OpContext& c);
void build_space_to_depth(OpContext& c);

// onnx_ops_nn.cc
void build_conv(OpContext& c);
void build_conv_transpose(OpContext& c);
void build_max_pool(OpContext& c);
void build_average_pool(OpContext& c);
void build_global_pool(OpContext& c);
void build_batch_norm(OpContext& c);
void build_instance_norm(OpContext& c);
void build_layer_norm(OpContext& c);
void build_dropout(OpContext& c);
void build_resize(OpContext& c);
void build_upsample(OpContext& c);

}  // namespace modeld::onnx_import
