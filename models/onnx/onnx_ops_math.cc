// Elementwise, reducing and matrix ops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runtime/tensor/nn.h"

#include "models/onnx/onnx_ops.h"

namespace modeld::onnx_import {
namespace {

// Half types are worked in f32 in multi-step formulas.
DType wide(DType t) {
  return ir::is_narrow_float(t) ? DType::kF32 : t;
}

}  // namespace

void build_unary(OpContext& c) {
  const Tensor x = c.in(0);
  const std::string& op = c.node.op;
  if (op == "Abs") return c.out(x.abs());
  if (op == "Neg") return c.out(x.neg());
  if (op == "Sign") return c.out(x.sign());
  return c.out(tensor::relu(x));
}

void build_float_unary(OpContext& c) {
  using Fn = Tensor (*)(const Tensor&);
  static const std::map<std::string, Fn> kFns = {
      {"Ceil", [](const Tensor& x) { return x.ceil(); }},
      {"Cos", [](const Tensor& x) { return x.cos(); }},
      {"Erf", [](const Tensor& x) { return x.erf(); }},
      {"Exp", [](const Tensor& x) { return x.exp(); }},
      {"Floor", [](const Tensor& x) { return x.floor(); }},
      {"HardSwish", [](const Tensor& x) { return tensor::hard_swish(x); }},
      {"Log", [](const Tensor& x) { return x.log(); }},
      {"Reciprocal", [](const Tensor& x) { return x.reciprocal(); }},
      {"Round", [](const Tensor& x) { return x.round(); }},
      {"Sigmoid", [](const Tensor& x) { return x.sigmoid(); }},
      {"Sin", [](const Tensor& x) { return x.sin(); }},
      {"Softplus", [](const Tensor& x) { return tensor::softplus(x); }},
      {"Softsign", [](const Tensor& x) { return x / (x.abs() + 1); }},
      {"Sqrt", [](const Tensor& x) { return x.sqrt(); }},
      {"Tan", [](const Tensor& x) { return x.tan(); }},
      {"Tanh", [](const Tensor& x) { return x.tanh(); }},
  };
  if (c.require_float()) c.out(kFns.at(c.node.op)(c.in(0)));
}

// Functions with attributes.
void build_shaped_unary(OpContext& c) {
  if (!c.require_float()) return;
  const Tensor x = c.in(0);
  const std::string& op = c.node.op;
  if (op == "Elu") return c.out(tensor::elu(x, c.attr_float("alpha", 1.0)));
  if (op == "LeakyRelu") return c.out(tensor::leaky_relu(x, c.attr_float("alpha", 0.01)));
  const double alpha = c.attr_float("alpha", 0.2);
  const double beta = c.attr_float("beta", 0.5);
  c.out(tensor::hard_sigmoid(x, alpha, beta));
}

void build_not(OpContext& c) {
  if (c.dtype(0) != DType::kBool)
    return c.error(strf("input 0 has type %s, bool is needed", ir::dtype_name(c.dtype(0))),
                   Errc::kMismatch);
  c.out(c.in(0).logical_not());
}

void build_arithmetic(OpContext& c) {
  if (!c.require_same_dtype(0, 1)) return;
  if (c.dtype(0) == DType::kBool) return c.error("of bools", Errc::kMismatch);
  const Tensor a = c.in(0);
  const Tensor b = c.in(1);
  const std::string& op = c.node.op;
  if (op == "Add") return c.out(a + b);
  if (op == "Sub") return c.out(a - b);
  if (op == "Mul") return c.out(a * b);
  c.out(ir::is_float(a.dtype()) ? a / b : a.trunc_div(b));
}

void build_mod(OpContext& c) {
  if (!c.require_same_dtype(0, 1)) return;
  const bool fmod = c.attr_int("fmod", 0) != 0;
  if (!fmod && ir::is_float(c.dtype(0))) return c.error("floats need fmod = 1", Errc::kMismatch);
  c.out(fmod ? c.in(0).trunc_mod(c.in(1)) : c.in(0).floor_mod(c.in(1)));
}

// The result has the type of the base; a constant exponent becomes products and roots.
void build_pow(OpContext& c) {
  if (c.opset < 12 && !c.require_same_dtype(0, 1)) return;
  const Tensor x = c.in(0);
  const HostPtr e = c.host(1);
  if (e != nullptr && e->count() == 1 && c.dims(1).size() <= c.dims(0).size())
    return c.out(x.pow(e->doubles()[0]).cast(x.dtype()));
  c.out(x.pow(c.in(1)).cast(x.dtype()));
}

void build_compare(OpContext& c) {
  if (!c.require_same_dtype(0, 1)) return;
  const Tensor a = c.in(0);
  const Tensor b = c.in(1);
  const std::string& op = c.node.op;
  if (op == "Equal") return c.out(a.eq(b));
  if (op == "Less") return c.out(a.lt(b));
  if (op == "Greater") return c.out(a.gt(b));
  c.out(op == "LessOrEqual" ? a.le(b) : a.ge(b));
}

void build_logic(OpContext& c) {
  if (!c.require_same_dtype(0, 1)) return;
  if (c.dtype(0) != DType::kBool)
    return c.error(strf("inputs have type %s, bool is needed", ir::dtype_name(c.dtype(0))),
                   Errc::kMismatch);
  const std::string& op = c.node.op;
  if (op == "And") return c.out(c.in(0).bit_and(c.in(1)));
  c.out(op == "Or" ? c.in(0).bit_or(c.in(1)) : c.in(0).ne(c.in(1)));
}

void build_variadic(OpContext& c) {
  if (!c.require_same_dtype(0, c.inputs() - 1)) return;
  const std::string& op = c.node.op;
  const DType t = c.dtype(0);
  const bool adds = op == "Sum" || op == "Mean";
  if (adds && !c.require_float()) return;
  Tensor y = adds ? c.in(0).cast(wide(t)) : c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) {
    const Tensor x = c.in(i);
    y = op == "Max" ? y.maximum(x) : (op == "Min" ? y.minimum(x) : y + x.cast(wide(t)));
  }
  if (op == "Mean") y = y * (1.0 / static_cast<double>(c.inputs()));
  c.out(y.cast(t));
}

void build_prelu(OpContext& c) {
  if (!c.require_same_dtype(0, 1)) return;
  const Tensor x = c.in(0);
  c.out(x.lt(0).where(x * c.in(1), x));
}

// Limits are attributes before opset 11 and inputs from then on; a missing one does not limit.
void build_clip(OpContext& c) {
  Tensor y = c.in(0);
  const bool as_inputs = c.opset >= 11;
  if (!as_inputs && c.inputs() > 1) return c.error("limits are attributes before opset 11");
  for (size_t side = 1; side <= 2; ++side) {
    Tensor limit;
    if (!as_inputs) {
      const char* name = side == 1 ? "min" : "max";
      const bool given = c.has_attr(name);
      const double v = c.attr_float(name, 0);
      // The default limits, written out, limit nothing but infinities.
      if (!given || std::fabs(v) >= static_cast<double>(std::numeric_limits<float>::max()))
        continue;
      limit = y.literal(v);
    } else {
      if (!c.has(side)) continue;
      if (!c.require_same_dtype(0, side)) return;
      if (tensor::product(c.dims(side)) != 1)
        return c.error(strf("limit %zu is not one number", side));
      limit = c.in(side).reshape({});
    }
    y = side == 1 ? y.maximum(limit) : y.minimum(limit);
  }
  c.out(y);
}

void build_cast(OpContext& c) {
  const int64_t to = c.attr_int("to", 0);
  const auto t = onnx_dtype(to);
  if (!t)
    return c.error(strf("attribute 'to' is data type %lld, which is not supported",
                        static_cast<long long>(to)),
                   Errc::kUnsupported);
  c.out(c.in(0).cast(*t));
}

void build_where(OpContext& c) {
  if (!c.require_same_dtype(1, 2)) return;
  if (c.dtype(0) != DType::kBool)
    return c.error(strf("condition has type %s, bool is needed", ir::dtype_name(c.dtype(0))),
                   Errc::kMismatch);
  c.out(c.in(0).where(c.in(1), c.in(2)));
}

namespace {

Tensor reduced(const std::string& op, const Tensor& x, const Dims& axes, bool keep) {
  if (op == "ReduceSum") return x.sum(axes, keep);
  if (op == "ReduceMean") return x.mean(axes, keep);
  if (op == "ReduceMax") return x.max(axes, keep);
  if (op == "ReduceMin") return x.min(axes, keep);
  if (op == "ReduceProd") return x.prod(axes, keep);
  if (op == "ReduceL1") return x.abs().sum(axes, keep);
  if (op == "ReduceSumSquare") return x.square().sum(axes, keep);
  if (op == "ReduceL2") return x.square().sum(axes, keep).sqrt();
  const Tensor most = x.max(axes, true);  // ReduceLogSumExp
  const Tensor total = (x - most).exp().sum(axes, true).log() + most;
  return keep ? total : total.reshape(x.max(axes, false).dims());
}

}  // namespace

// Axes: an attribute; an input for ReduceSum from opset 13.
void build_reduce(OpContext& c) {
  const bool as_input = c.node.op == "ReduceSum" && c.opset >= 13;
  const bool keep = c.attr_int("keepdims", 1) != 0;
  Dims axes;
  if (as_input) {
    const bool none_means_none = c.attr_int("noop_with_empty_axes", 0) != 0;
    if (c.has(1)) axes = c.host_ints(1, "axes");
    if (axes.empty() && none_means_none) return c.out(c.in(0));
  } else {
    if (c.inputs() > 1) return c.error("axes are an attribute before opset 13");
    axes = c.attr_ints("axes");
  }
  const Tensor x = c.in(0);
  const bool mean_like =
      c.node.op == "ReduceMean" || c.node.op == "ReduceL2" || c.node.op == "ReduceLogSumExp";
  if (mean_like && !c.require_float()) return;
  c.out(reduced(c.node.op, x.cast(wide(x.dtype())), axes, keep).cast(x.dtype()));
}

void build_arg_extreme(OpContext& c) {
  const int64_t axis = c.attr_int("axis", 0);
  const bool keep = c.attr_int("keepdims", 1) != 0;
  const bool last = c.attr_int("select_last_index", 0) != 0;
  Tensor x = c.in(0);
  if (c.node.op == "ArgMin") x = ir::is_float(x.dtype()) ? x.neg() : x.bit_xor(x.literal(-1));
  c.out(x.argmax(axis, keep, last).cast(DType::kI64));
}

void build_cumsum(OpContext& c) {
  if (c.attr_int("exclusive", 0) != 0 || c.attr_int("reverse", 0) != 0)
    return c.error("exclusive and reverse sums are not supported", Errc::kUnsupported);
  const auto axis = static_cast<int64_t>(std::clamp(c.host_scalar(1, "axis"), -1e9, 1e9));
  const Tensor x = c.in(0);
  c.out(x.cumsum(axis).cast(x.dtype()));
}

void build_matmul(OpContext& c) {
  if (!c.require_same_dtype(0, 1)) return;
  c.out(c.in(0).matmul(c.in(1)).cast(c.dtype(0)));
}

void build_gemm(OpContext& c) {
  if (!c.require_same_dtype(0, 2) || !c.require_float()) return;
  const double alpha = c.attr_float("alpha", 1.0);
  const double beta = c.attr_float("beta", 1.0);
  const bool trans_a = c.attr_int("transA", 0) != 0;
  const bool trans_b = c.attr_int("transB", 0) != 0;
  if (c.opset < 11 && !c.has(2)) return c.error("input 2 is required before opset 11");
  if (c.dims(0).size() != 2 || c.dims(1).size() != 2) return c.error("operands must be matrices");
  const DType t = c.dtype(0);
  const Tensor a = c.in(0).cast(wide(t));
  const Tensor b = c.in(1).cast(wide(t));
  Tensor y = (trans_a ? a.transpose(0, 1) : a).matmul(trans_b ? b.transpose(0, 1) : b);
  if (alpha != 1.0) y = y * alpha;
  if (c.has(2) && beta != 0) {
    Tensor bias = c.in(2).cast(wide(t));
    if (beta != 1.0) bias = bias * beta;
    if (tensor::broadcast_dims(c.g, bias.dims(), y.dims(), "Gemm") != y.dims())
      return c.error(strf("input 2 of %s does not broadcast to %s",
                          tensor::dims_text(c.dims(2)).c_str(),
                          tensor::dims_text(y.dims()).c_str()));
    y = y + bias;
  }
  c.out(y.cast(t));
}

namespace {

struct Equation {
  std::vector<std::string> terms;
  std::string out;
};

// "bij,bjk->bik"; letters only, none twice in a term, every output letter from an input.
std::optional<Equation> parse_equation(std::string text, size_t operands) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  Equation e;
  e.out = text.substr(arrow + 2);
  std::string left = text.substr(0, arrow) + ",";
  for (size_t at = 0; at < left.size();) {
    const size_t comma = left.find(',', at);
    e.terms.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  std::vector<std::string> all = e.terms;
  all.push_back(e.out);
  for (const std::string& t : all) {
    std::string sorted = t;
    std::sort(sorted.begin(), sorted.end());
    const bool letters = std::all_of(t.begin(), t.end(), [](char ch) {
      return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
    });
    if (!letters || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return std::nullopt;
  }
  const std::string inputs = e.terms[0] + (e.terms.size() > 1 ? e.terms[1] : "");
  const bool known = std::all_of(e.out.begin(), e.out.end(),
                                 [&](char ch) { return inputs.find(ch) != std::string::npos; });
  return e.terms.size() == operands && known ? std::optional(e) : std::nullopt;
}

// The operand with its axes in the order of `letters`, size 1 where it has none.
Tensor aligned(const Tensor& x, const std::string& term, const std::string& letters) {
  Dims order, dims;
  for (const char ch : letters) {
    const size_t at = term.find(ch);
    if (at == std::string::npos) {
      dims.push_back(1);
      continue;
    }
    order.push_back(static_cast<int64_t>(at));
    dims.push_back(x.dim(static_cast<int64_t>(at)));
  }
  return x.permute(order).reshape(dims);
}

}  // namespace

void build_einsum(OpContext& c) {
  const std::string text = c.attr_string("equation", "");
  const auto e = parse_equation(text, c.inputs());
  if (!e) return c.error(strf("equation '%s' is not supported", text.c_str()), Errc::kUnsupported);
  if (!c.require_same_dtype(0, c.inputs() - 1) || !c.require_float()) return;
  std::string letters = e->out;
  Dims summed;
  Tensor y;
  for (size_t i = 0; i < c.inputs(); ++i) {
    if (e->terms[i].size() != c.dims(i).size())
      return c.error(strf("equation '%s' for an input of %s", text.c_str(),
                          tensor::dims_text(c.dims(i)).c_str()));
    for (const char ch : e->terms[i]) {
      if (letters.find(ch) != std::string::npos) continue;
      summed.push_back(static_cast<int64_t>(letters.size()));
      letters += ch;
    }
  }
  for (size_t i = 0; i < c.inputs(); ++i) {
    const Tensor x = aligned(c.in(i).cast(wide(c.dtype(i))), e->terms[i], letters);
    y = y.valid() ? y * x : x;
  }
  if (!summed.empty()) y = y.sum(summed);
  c.out(y.cast(c.dtype(0)));
}

// Before opset 13 everything from `axis` on is one long row.
void build_softmax(OpContext& c) {
  if (!c.require_float()) return;
  const bool old = c.opset < 13;
  const int64_t axis = c.attr_int("axis", old ? 1 : -1);
  Tensor x = c.in(0);
  const Dims dims = x.dims();
  const auto rank = static_cast<int64_t>(dims.size());
  if (axis < -rank || axis >= std::max<int64_t>(rank, old ? 2 : 1))
    return c.error(
        strf("axis %lld of %s", static_cast<long long>(axis), tensor::dims_text(dims).c_str()));
  auto apply = [&](const Tensor& t, int64_t a) {
    return c.node.op == "Softmax" ? tensor::softmax(t, a) : tensor::log_softmax(t, a);
  };
  if (!old || axis == rank - 1 || axis == -1) return c.out(apply(x, axis));
  const int64_t first = axis < 0 ? axis + rank : std::min(axis, rank);
  const int64_t rows =
      tensor::product(std::span<const int64_t>(dims).first(static_cast<size_t>(first)));
  const int64_t row =
      tensor::product(std::span<const int64_t>(dims).subspan(static_cast<size_t>(first)));
  c.out(apply(x.reshape({rows, row}), 1).reshape(dims));
}

}  // namespace modeld::onnx_import
