#include "selftest/testing/program_interp.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/ir/derived.h"

#include "selftest/testing/scalar_alu.h"
#include "selftest/testing/unit_layout.h"

namespace modeld::testing {

using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

constexpr int kNobody = -1;
constexpr int kMany = -2;

using Lanes = std::vector<Scalar>;
using Matrix = std::map<std::pair<int64_t, int64_t>, Scalar>;  // by row and column

// Who touched an element since the last barrier (local memory) or in this launch (global memory).
struct Touch {
  int writer = kNobody;
  int reader = kNobody;
  uint64_t write_epoch = 0;
  uint64_t read_epoch = 0;
};

struct Memory {
  KernelStorage* storage = nullptr;
  std::vector<Touch> touched;
};

// One work item between barriers.
struct Item {
  size_t pc = 0;
  int64_t local[3] = {0, 0, 0};
  int number = 0;  // in the whole launch
  std::vector<Lanes> values;
  std::map<const Node*, KernelStorage> registers;
};

const Node* storage_of(const Node* n) {
  while (n->op == Op::kAfter || n->op == Op::kIndex || n->op == Op::kShrink) n = n->src(0);
  const bool storage = n->op == Op::kBuffer || n->op == Op::kParam;
  return storage && n->as<ir::ParamArg>().addrspace != ir::AddrSpace::kAlu ? n : nullptr;
}

ir::AddrSpace space_of(const Node* storage) {
  return storage->as<ir::ParamArg>().addrspace;
}

class Machine {
 public:
  Machine(Graph& g,
          std::span<const Node* const> linear,
          const ir::ProgramInfo& info,
          std::span<KernelStorage* const> args,
          std::span<const int64_t> vars)
      : g_(g), linear_(linear), info_(info), args_(args), vars_(vars) {
    for (size_t i = 0; i < linear.size(); ++i) number_[linear[i]] = i;
    for (KernelStorage* s : args) global_.push_back({s, std::vector<Touch>(s->size())});
  }

  Status run();

 private:
  Graph& g_;
  std::span<const Node* const> linear_;
  const ir::ProgramInfo& info_;
  std::span<KernelStorage* const> args_;
  std::span<const int64_t> vars_;
  std::unordered_map<const Node*, size_t> number_;
  std::vector<Memory> global_;
  // Of the group that runs:
  int64_t group_[3] = {0, 0, 0};
  int64_t core_ = 0;
  uint64_t epoch_ = 0;
  std::map<const Node*, KernelStorage> local_storage_;
  std::map<const Node*, Memory> local_;

  Status run_group(int first_item);
  void make_memory();
  std::vector<Item> make_items(int first_item);
  // Runs to the next barrier, matrix step or the end; says which by the item's pc.
  Status advance(Item& item);
  Status step(Item& item, const Node* n);
  Status matrix_steps(std::vector<Item>& items, const Node* n);
  Status matrix_step(std::span<Item> wave, const Node* n, const UnitLayout& unit);
  Status gather(std::span<const Item> wave,
                const Node* factor,
                int64_t elements,
                std::pair<int64_t, int64_t> (*place)(int64_t, int64_t),
                Matrix& out) const;
  Status evaluate(Item& item, const Node* n, Lanes& out);
  Status alu(Item& item, const Node* n, Lanes& out);
  Result<Scalar> lane_of(const Item& item, const Node* n, size_t lane) const;
  Result<KernelStorage*> memory_of(Item& item, const Node* storage);
  Status load(Item& item, const Node* n, Lanes& out);
  Status store(Item& item, const Node* n);
  Result<int64_t> first_element(const Item& item, const Node* address) const;
  Status note_read(const Item& item, const Node* storage, Touch& t) const;
  Status note_write(const Item& item, const Node* storage, Touch& t) const;
  Touch* touch_of(const Node* storage, int64_t element);
  int64_t special(const Item& item, const std::string& name) const;
  const Lanes& at(const Item& item, const Node* n) const { return item.values[number_.at(n)]; }
};

tl::unexpected<Error> bad(const Node* n, const std::string& why) {
  return fail(Errc::kInvalid, strf("program_interp: %s: %s", ir::op_name(n->op), why.c_str()));
}

// ---- groups and items ----

Status Machine::run() {
  int item = 0;
  for (int64_t z = 0; z < info_.global_size[2]; ++z) {
    for (int64_t y = 0; y < info_.global_size[1]; ++y) {
      for (int64_t x = 0; x < info_.global_size[0]; ++x) {
        group_[0] = x, group_[1] = y, group_[2] = z;
        core_ = x;
        RETURN_IF_ERROR(run_group(item));
        for (int64_t l : info_.local_size) item += static_cast<int>(std::max<int64_t>(l, 1));
        item += 1 << 12;  // numbers of different groups never meet
      }
    }
  }
  return {};
}

void Machine::make_memory() {
  local_.clear();
  local_storage_.clear();
  for (const Node* n : linear_) {
    if (n->op != Op::kBuffer || space_of(n) != ir::AddrSpace::kLocal) continue;
    const auto count = static_cast<size_t>(ir::element_count(g_, n));
    KernelStorage& s = local_storage_[n] = KernelStorage::of(n->dtype, count);
    s.written.assign(count, false);
    local_[n] = {&s, std::vector<Touch>(count)};
  }
}

std::vector<Item> Machine::make_items(int first_item) {
  std::vector<Item> items;
  const auto size = [&](size_t d) { return std::max<int64_t>(info_.local_size[d], 1); };
  for (int64_t z = 0; z < size(2); ++z) {
    for (int64_t y = 0; y < size(1); ++y) {
      for (int64_t x = 0; x < size(0); ++x) {
        Item item;
        item.local[0] = x, item.local[1] = y, item.local[2] = z;
        item.number = first_item + static_cast<int>(items.size());
        item.values.resize(linear_.size());
        items.push_back(std::move(item));
      }
    }
  }
  return items;
}

Status Machine::run_group(int first_item) {
  make_memory();
  std::vector<Item> items = make_items(first_item);
  ++epoch_;
  while (true) {
    for (Item& item : items) RETURN_IF_ERROR(advance(item));
    for (const Item& item : items) {
      if (item.pc != items[0].pc) {
        return fail(Errc::kInvalid, "program_interp: not every item reaches the same barrier");
      }
    }
    if (items[0].pc == linear_.size()) return {};
    const Node* n = linear_[items[0].pc];
    if (n->op == Op::kWmma) {
      RETURN_IF_ERROR(matrix_steps(items, n));
    } else {
      ++epoch_;
    }
    for (Item& item : items) ++item.pc;
  }
}

// ---- matrix units: the items of a wave give and get the parts of one product ----

Status Machine::matrix_steps(std::vector<Item>& items, const Node* n) {
  const auto unit = unit_layout(n->as<ir::WmmaArg>().core);
  if (!unit) return bad(n, "a matrix unit nobody described");
  const auto lanes = static_cast<size_t>(unit->threads);
  if (items.size() % lanes != 0) return bad(n, "a group that is not made of whole waves");
  for (size_t first = 0; first < items.size(); first += lanes)
    RETURN_IF_ERROR(matrix_step(std::span(items).subspan(first, lanes), n, *unit));
  return {};
}

// Whoever holds a number must hold the same one: the unit may read it from either.
Status Machine::gather(std::span<const Item> wave,
                       const Node* factor,
                       int64_t elements,
                       std::pair<int64_t, int64_t> (*place)(int64_t, int64_t),
                       Matrix& out) const {
  for (size_t lane = 0; lane < wave.size(); ++lane) {
    for (int64_t e = 0; e < elements; ++e) {
      ASSIGN_OR_RETURN(const Scalar v, lane_of(wave[lane], factor, static_cast<size_t>(e)));
      const auto [at, fresh] = out.emplace(place(static_cast<int64_t>(lane), e), v);
      if (!fresh && (at->second.f != v.f || at->second.i != v.i))
        return bad(factor, strf("lane %zu holds another number in element %lld", lane,
                                static_cast<long long>(e)));
    }
  }
  return {};
}

Status Machine::matrix_step(std::span<Item> wave, const Node* n, const UnitLayout& unit) {
  Matrix a, b;
  RETURN_IF_ERROR(gather(wave, n->src(0), unit.a_elements, unit.a, a));
  RETURN_IF_ERROR(gather(wave, n->src(1), unit.b_elements, unit.b, b));
  const int64_t results = unit.n * unit.m / unit.threads;
  for (size_t lane = 0; lane < wave.size(); ++lane) {
    Lanes& out = wave[lane].values[wave[lane].pc];
    out.clear();
    for (int64_t e = 0; e < results; ++e) {
      ASSIGN_OR_RETURN(Scalar sum, lane_of(wave[lane], n->src(2), static_cast<size_t>(e)));
      const auto [row, column] = unit.c(static_cast<int64_t>(lane), e);
      for (int64_t k = 0; k < unit.k; ++k) {
        const Scalar x = a.at({row, k}), y = b.at({k, column});
        sum.f += x.f * y.f;
        sum.i = ir::wrap_to(n->dtype, sum.i + x.i * y.i);
      }
      if (ir::is_float(n->dtype)) sum.f = ir::round_to(n->dtype, sum.f);
      out.push_back(sum);
    }
  }
  return {};
}

// ---- control ----

Status Machine::advance(Item& item) {
  while (item.pc < linear_.size()) {
    const Node* n = linear_[item.pc];
    if (n->op == Op::kBarrier || n->op == Op::kWmma) return {};
    if (n->op == Op::kRange) {
      item.values[item.pc] = {Scalar{}};
      if (at(item, n->src(0))[0].i <= 0) return bad(n, "a loop that never runs");
    }
    if (n->op == Op::kEnd) {
      const size_t start = number_.at(n->src(1));
      int64_t& counter = item.values[start][0].i;
      if (++counter < at(item, linear_[start]->src(0))[0].i) {
        item.pc = start + 1;
        continue;
      }
    }
    RETURN_IF_ERROR(step(item, n));
    ++item.pc;
  }
  return {};
}

Status Machine::step(Item& item, const Node* n) {
  switch (n->op) {
    case Op::kRange:
    case Op::kEnd:
    case Op::kSink:
    case Op::kGroup:
    case Op::kAfter:
    case Op::kNoop:
    case Op::kShrink:
      return {};
    case Op::kBuffer:
      if (space_of(n) == ir::AddrSpace::kReg) {
        const auto count = static_cast<size_t>(ir::element_count(g_, n));
        KernelStorage& s = item.registers[n] = KernelStorage::of(n->dtype, count);
        s.written.assign(count, false);
      }
      return {};
    case Op::kStore:
      return store(item, n);
    default:
      return evaluate(item, n, item.values[item.pc]);
  }
}

// ---- values ----

int64_t Machine::special(const Item& item, const std::string& name) const {
  const auto d = static_cast<size_t>(name.back() - '0');
  return name[0] == 'l' ? item.local[d] : group_[d];
}

Status Machine::evaluate(Item& item, const Node* n, Lanes& out) {
  out.assign(1, Scalar{});
  switch (n->op) {
    case Op::kConst:
      out[0] = scalar_constant(n);
      return {};
    case Op::kSpecial:
      out[0].i = special(item, n->as<std::string>());
      return {};
    case Op::kParam: {
      const auto& p = n->as<ir::ParamArg>();
      if (p.addrspace != ir::AddrSpace::kAlu) return {};
      const auto word = static_cast<size_t>(p.slot) - args_.size();
      if (p.name == "core_id" && p.slot < 0) {
        out[0].i = core_;
      } else if (p.slot < static_cast<int64_t>(args_.size()) || word >= vars_.size()) {
        return bad(n, "unbound variable " + p.name);
      } else {
        out[0].i = vars_[word];
      }
      return {};
    }
    case Op::kStack:
      out.clear();
      for (const Node* s : n->src()) out.push_back(at(item, s)[0]);
      return {};
    case Op::kIndex: {
      if (storage_of(n) != nullptr) return {};
      ASSIGN_OR_RETURN(out[0],
                       lane_of(item, n->src(0), static_cast<size_t>(at(item, n->src(1))[0].i)));
      return {};
    }
    case Op::kLoad:
      return load(item, n, out);
    default:
      return alu(item, n, out);
  }
}

Result<Scalar> Machine::lane_of(const Item& item, const Node* n, size_t lane) const {
  const Lanes& v = at(item, n);
  if (v.size() == 1) return v[0];
  if (lane >= v.size()) return bad(n, "lane out of range");
  return v[lane];
}

Status Machine::alu(Item& item, const Node* n, Lanes& out) {
  const bool casts = n->op == Op::kCast || n->op == Op::kBitCast;
  if (!casts && !ir::kAluOps.has(n->op)) return bad(n, "not an instruction");
  size_t lanes = 1;
  for (const Node* s : n->src()) lanes = std::max(lanes, at(item, s).size());
  out.assign(lanes, Scalar{});
  for (size_t lane = 0; lane < lanes; ++lane) {
    Scalar a[3];
    for (size_t i = 0; i < n->nsrc; ++i) {
      ASSIGN_OR_RETURN(a[i], lane_of(item, n->src(i), lane));
    }
    if (n->op == Op::kCast) {
      out[lane] = scalar_convert(n->src(0)->dtype, n->dtype, a[0]);
    } else if (n->op == Op::kBitCast) {
      out[lane] = scalar_bitcast(n->src(0)->dtype, n->dtype, a[0]);
    } else if (n->op == Op::kWhere) {
      out[lane] = a[0].i != 0 ? a[1] : a[2];
    } else {
      // The languages give 0 (or the dividend) where C would trap.
      const bool divides = n->op == Op::kCDiv || n->op == Op::kCMod;
      if (divides && a[1].i == 0) {
        out[lane].i = n->op == Op::kCDiv ? 0 : a[0].i;
        continue;
      }
      ASSIGN_OR_RETURN(out[lane], scalar_alu(n, a));
      if (ir::is_float(n->dtype)) out[lane].f = ir::round_to(n->dtype, out[lane].f);
    }
  }
  return {};
}

// ---- memory ----

Result<KernelStorage*> Machine::memory_of(Item& item, const Node* storage) {
  if (space_of(storage) == ir::AddrSpace::kReg) return &item.registers.at(storage);
  if (space_of(storage) == ir::AddrSpace::kLocal) return local_.at(storage).storage;
  const int64_t slot = storage->as<ir::ParamArg>().slot;
  if (slot < 0 || slot >= static_cast<int64_t>(args_.size())) return bad(storage, "no argument");
  return args_[static_cast<size_t>(slot)];
}

Touch* Machine::touch_of(const Node* storage, int64_t element) {
  const auto e = static_cast<size_t>(element);
  if (space_of(storage) == ir::AddrSpace::kReg) return nullptr;
  if (space_of(storage) == ir::AddrSpace::kLocal) return &local_.at(storage).touched[e];
  return &global_[static_cast<size_t>(storage->as<ir::ParamArg>().slot)].touched[e];
}

// A pixel is element (y * width + x) * 4.
Result<int64_t> Machine::first_element(const Item& item, const Node* address) const {
  const int64_t first = at(item, address->src(1))[0].i;
  if (address->op != Op::kIndex || address->nsrc != 3) return first;
  const std::vector<int64_t> shape = ir::max_shape(g_, storage_of(address));
  const int64_t x = at(item, address->src(2))[0].i;
  if (x < 0 || x >= shape[1] || first < 0 || first >= shape[0]) {
    return bad(address, strf("pixel (%lld,%lld) is outside of its image",
                             static_cast<long long>(first), static_cast<long long>(x)));
  }
  return (first * shape[1] + x) * 4;
}

int64_t width_of(const Node* address) {
  if (address->op == Op::kShrink) return ir::int_value(address->src(2)).value_or(1);
  return address->nsrc == 3 ? 4 : 1;
}

Status Machine::note_read(const Item& item, const Node* storage, Touch& t) const {
  const bool local = space_of(storage) == ir::AddrSpace::kLocal;
  const bool fresh = !local || t.write_epoch == epoch_;
  if (t.writer != kNobody && t.writer != item.number && fresh) {
    return bad(storage, strf("item %d reads what item %d wrote%s", item.number, t.writer,
                             local ? " without a barrier between" : " in the same launch"));
  }
  t.reader = t.read_epoch == epoch_ && t.reader != item.number ? kMany : item.number;
  t.read_epoch = epoch_;
  return {};
}

Status Machine::note_write(const Item& item, const Node* storage, Touch& t) const {
  const bool local = space_of(storage) == ir::AddrSpace::kLocal;
  if (t.writer != kNobody && t.writer != item.number && (!local || t.write_epoch == epoch_)) {
    return bad(storage, strf("items %d and %d write one element", t.writer, item.number));
  }
  if (local && t.read_epoch == epoch_ && t.reader != item.number) {
    return bad(storage, strf("item %d overwrites what another reads without a barrier between",
                             item.number));
  }
  t.writer = item.number;
  t.write_epoch = epoch_;
  return {};
}

Status Machine::load(Item& item, const Node* n, Lanes& out) {
  const Node* address = n->src(0);
  const int64_t width = width_of(address);
  if (n->nsrc == 3 && at(item, n->src(2))[0].i == 0) {
    out.assign(static_cast<size_t>(width), Scalar{});
    for (size_t lane = 0; lane < out.size(); ++lane) {
      ASSIGN_OR_RETURN(out[lane], lane_of(item, n->src(1), lane));
    }
    return {};
  }
  const Node* storage = storage_of(address);
  ASSIGN_OR_RETURN(KernelStorage* const memory, memory_of(item, storage));
  ASSIGN_OR_RETURN(const int64_t first, first_element(item, address));
  out.assign(static_cast<size_t>(width), Scalar{});
  for (int64_t k = 0; k < width; ++k) {
    const int64_t e = first + k;
    if (e < 0 || e >= static_cast<int64_t>(memory->size())) {
      return bad(n, strf("element %lld of %zu", static_cast<long long>(e), memory->size()));
    }
    const auto i = static_cast<size_t>(e);
    if (!memory->written.empty() && !memory->written[i]) {
      return bad(n, strf("element %lld is read before it is written", static_cast<long long>(e)));
    }
    if (Touch* t = touch_of(storage, e)) RETURN_IF_ERROR(note_read(item, storage, *t));
    Scalar& lane = out[static_cast<size_t>(k)];
    (ir::is_float(n->dtype) ? void(lane.f = memory->f[i]) : void(lane.i = memory->i[i]));
  }
  return {};
}

Status Machine::store(Item& item, const Node* n) {
  if (n->nsrc == 3 && at(item, n->src(2))[0].i == 0) return {};
  const Node* address = n->src(0);
  const Node* storage = storage_of(address);
  ASSIGN_OR_RETURN(KernelStorage* const memory, memory_of(item, storage));
  ASSIGN_OR_RETURN(const int64_t first, first_element(item, address));
  KernelStorage& s = *memory;
  for (int64_t k = 0; k < width_of(address); ++k) {
    const int64_t e = first + k;
    if (e < 0 || e >= static_cast<int64_t>(s.size())) {
      return bad(n, strf("element %lld of %zu", static_cast<long long>(e), s.size()));
    }
    const auto i = static_cast<size_t>(e);
    if (Touch* t = touch_of(storage, e)) RETURN_IF_ERROR(note_write(item, storage, *t));
    ASSIGN_OR_RETURN(const Scalar v, lane_of(item, n->src(1), static_cast<size_t>(k)));
    if (ir::is_float(s.dtype)) {
      s.f[i] = ir::round_to(s.dtype, v.f);
    } else {
      s.i[i] = ir::wrap_to(s.dtype, v.i);
    }
    if (!s.written.empty()) s.written[i] = true;
  }
  return {};
}

}  // namespace

Status run_program(Graph& g,
                   std::span<const Node* const> linear,
                   const ir::ProgramInfo& info,
                   std::span<KernelStorage* const> args,
                   std::span<const int64_t> vars) {
  return Machine(g, linear, info, args, vars).run();
}

}  // namespace modeld::testing
