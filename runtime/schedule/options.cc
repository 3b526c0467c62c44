#include "runtime/schedule/options.h"

#include "hal/base/status.h"

namespace modeld::schedule {

Hash128 ScheduleOptions::digest() const {
  const std::string multi =
      strf("ring=%d all2all=%d large=%lld allreduce=%d,%d,%d", ring, all2all,
           static_cast<long long>(ring_allreduce_threshold), allreduce_cast ? 1 : 0,
           late_allreduce ? 1 : 0, allreduce_in_place ? 1 : 0);
  return xxh128(strf("schedule-1 device=%s max=%lld inline=%lld padded=%d split=%d,%lld,%lld %s",
                     device.c_str(), static_cast<long long>(max_kernel_buffers),
                     static_cast<long long>(inline_max_buffers), stage_padded_reduce ? 1 : 0,
                     split_reduceop ? 1 : 0, static_cast<long long>(split_threshold),
                     static_cast<long long>(split_size_log2), multi.c_str()));
}

}  // namespace modeld::schedule
