#include "models/reference/reference.h"

#include <utility>

#include "hal/base/fs.h"

#include "models/reference/roles.h"

namespace modeld::reference {

namespace {

template <class T>
struct Word {
  std::string_view text;
  T value;
};

template <class T, size_t N>
Result<T> look_up(const Word<T> (&words)[N], const char* what, std::string_view text) {
  std::string known;
  for (const Word<T>& word : words) {
    if (word.text == text) return word.value;
    known += known.empty() ? "" : "|";
    known += word.text;
  }
  return fail(Errc::kInvalid, strf("reference model: %s '%.*s' is not one of %s", what,
                                   static_cast<int>(text.size()), text.data(), known.c_str()));
}

}  // namespace

Result<ReferenceModel> build_reference(const ReferenceOptions& options) {
  const bool road = options.role == Role::kRoad;
  if (!road && options.variant == Variant::kNanState) {
    return fail(Errc::kInvalid,
                "reference model: variant nan-state needs a model with state; cabin has none");
  }
  const Elem elem = options.dtype == Dtype::kF16 ? Elem::kF16 : Elem::kF32;
  GraphWriter writer(road ? "road_stand_in" : "cabin_stand_in", elem, options.seed);
  return road ? build_road(options, writer) : build_cabin(options, writer);
}

Result<std::string> make_reference(const ReferenceOptions& options) {
  ASSIGN_OR_RETURN(ReferenceModel model, build_reference(options));
  return std::move(model.onnx);
}

Result<ReferenceModel> write_reference(const ReferenceOptions& options, const std::string& path) {
  ASSIGN_OR_RETURN(ReferenceModel model, build_reference(options));
  RETURN_IF_ERROR(write_text_atomic(path, model.onnx));
  return model;
}

Result<Role> parse_role(std::string_view text) {
  static constexpr Word<Role> kWords[] = {{"road", Role::kRoad}, {"cabin", Role::kCabin}};
  return look_up(kWords, "role", text);
}

Result<Size> parse_size(std::string_view text) {
  static constexpr Word<Size> kWords[] = {
      {"tiny", Size::kTiny}, {"small", Size::kSmall}, {"full", Size::kFull}};
  return look_up(kWords, "size", text);
}

Result<Dtype> parse_dtype(std::string_view text) {
  static constexpr Word<Dtype> kWords[] = {{"f32", Dtype::kF32}, {"f16", Dtype::kF16}};
  return look_up(kWords, "dtype", text);
}

Result<Variant> parse_variant(std::string_view text) {
  static constexpr Word<Variant> kWords[] = {{"clean", Variant::kClean},
                                             {"nan", Variant::kNan},
                                             {"nan-state", Variant::kNanState},
                                             {"inf-slice", Variant::kInfSlice},
                                             {"zero", Variant::kZero}};
  return look_up(kWords, "variant", text);
}

}  // namespace modeld::reference
