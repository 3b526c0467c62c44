#include "selftest/boot/subject.h"

#include "hal/base/fs.h"

#include "runtime/exec/prepare.h"

#include "models/bundle/golden_answers.h"

#include "daemon/realtime.h"

namespace modeld::selftest {

hal::DeviceConfig Subject::device_config() const {
  hal::DeviceConfig out;
  out.threads = manifest().plan.target.threads;
  // As the worker: those that are not there are left out.
  out.cpus = daemon::usable_cpus(model.cpus);
  out.on_null_run = bundle::golden_answers(*bundle);  // only the null device asks
  return out;
}

exec::CompileOptions Subject::compile_options() const {
  exec::CompileOptions out = exec::default_compile_options(plan.target);
  out.jobs = world.jobs;
  out.cache_dir = scratch.empty() ? "" : join_path(scratch, "cache");
  return out;
}

}  // namespace modeld::selftest
