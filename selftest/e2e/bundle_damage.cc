#include "selftest/e2e/bundle_damage.h"

#include <algorithm>

#include "hal/base/fs.h"

#include "models/bundle/bundle_reader.h"
#include "models/bundle/bundle_writer.h"

namespace modeld::e2e {
namespace {

// What write_bundle needs to make the same bundle again; the weights stay in `b`.
bundle::BundleContent content_of(const bundle::Bundle& b) {
  bundle::BundleContent content;
  content.manifest = b.manifest();
  content.manifest.plan = b.to_plan(true);
  content.weights = b.section(bundle::SectionKind::kWeights);
  const auto golden = b.section(bundle::SectionKind::kGolden);
  content.golden.assign(golden.begin(), golden.end());
  content.keep_sources = !b.section(bundle::SectionKind::kSources).empty();
  return content;
}

template <class Change>
void rewrite(const std::string& from, const std::string& to, const Change& change) {
  const auto b = bundle::Bundle::open(from);
  if (!b.ok()) {
    ADD_FAILURE() << b.error().what;
    return;
  }
  bundle::BundleContent content = content_of(**b);
  change(content);
  const auto written = bundle::write_bundle(to, std::move(content));
  EXPECT_TRUE(written.ok()) << written.error().what;
}

// The one that entry run's first program call uses.
exec::ProgramRow& first_kernel(bundle::BundleContent& content) {
  exec::Plan& plan = content.manifest.plan;
  const exec::Entry* run = plan.find_entry("run");
  const auto call = std::find_if(run->calls.begin(), run->calls.end(), [](const auto& c) {
    return c.kind == exec::CallRow::Kind::kProgram;
  });
  return plan.programs[call->program];
}

}  // namespace

std::string strip_first_kernel(const std::string& from, const std::string& to) {
  std::string name;
  rewrite(from, to, [&](bundle::BundleContent& content) {
    exec::ProgramRow& program = first_kernel(content);
    exec::strip_image(program);
    name = program.name;
  });
  return name;
}

void change_first_kernel(const std::string& from,
                         const std::string& to,
                         const std::function<void(exec::Image&)>& change) {
  rewrite(from, to, [&](bundle::BundleContent& content) { change(first_kernel(content).image); });
}

void retarget_to_arm(const std::string& from, const std::string& to) {
  const auto arm = hal::parse_target("cpu:aarch64");
  ASSERT_TRUE(arm.ok());
  rewrite(from, to, [&](bundle::BundleContent& content) {
    const int threads = content.manifest.plan.target.threads;
    content.manifest.plan.target = *arm;
    content.manifest.plan.target.threads = threads;
  });
}

void break_golden(const std::string& from, const std::string& to) {
  rewrite(from, to, [](bundle::BundleContent& content) {
    // Exponent bits of the first number of every output.
    for (const bundle::GoldenCase& c : content.manifest.golden) {
      for (const bundle::GoldenTensor& t : c.tensors) {
        if (t.is_output) content.golden[t.offset + 3] ^= std::byte{0x40};
      }
    }
  });
}

void set_budget(const std::string& from, const std::string& to, double p50_ms, double p99_ms) {
  rewrite(from, to, [&](bundle::BundleContent& content) {
    content.manifest.budget = {p50_ms, p99_ms};
  });
}

void swap_first_kernels_text(const std::string& from, const std::string& to) {
  rewrite(from, to, [](bundle::BundleContent& content) {
    std::vector<exec::ProgramRow>& programs = content.manifest.plan.programs;
    ASSERT_GE(programs.size(), 2u);
    std::swap(programs[0].ast_text, programs[1].ast_text);
  });
}

void overlap_buffers(const std::string& from, const std::string& to) {
  rewrite(from, to, [](bundle::BundleContent& content) {
    for (exec::BufferRow& row : content.manifest.plan.buffers)
      if (row.kind == exec::BufferRow::Kind::kArena) row.offset = 0;
  });
}

std::string bytes_of(const std::string& path) {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok()) << path;
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

void put_bytes(const std::string& path, const std::string& bytes) {
  EXPECT_TRUE(write_text_atomic(path, bytes).ok()) << path;
}

}  // namespace modeld::e2e
