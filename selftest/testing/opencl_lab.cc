#include "selftest/testing/opencl_lab.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

namespace modeld::testing {

namespace {

// Names, types and values of the OpenCL 1.2 specification (Khronos, cl.h); only what is used.
using Handle = void*;
using Int = int32_t;
using Uint = uint32_t;
using Bits = uint64_t;

constexpr Bits kAnyDevice = 0xffffffff;
constexpr Uint kDeviceName = 0x102b, kBuildLog = 0x1183;
constexpr Bits kReadWrite = 1 << 0, kCopyHost = 1 << 5;
constexpr Uint kRgba = 0x10b5, kHalfFloat = 0x10dd, kFloat = 0x10de, kImage2d = 0x10f1;

struct ImageFormat {
  Uint order, type;
};
struct ImageDesc {
  Uint type;
  size_t width, height, depth, array_size, row_pitch, slice_pitch;
  Uint mip_levels, samples;
  Handle buffer;
};

struct Api {
  Int (*platforms)(Uint, Handle*, Uint*);
  Int (*devices)(Handle, Bits, Uint, Handle*, Uint*);
  Int (*device_info)(Handle, Uint, size_t, void*, size_t*);
  Handle (*context)(const intptr_t*, Uint, const Handle*, void*, void*, Int*);
  Handle (*queue)(Handle, Handle, Bits, Int*);
  Handle (*program)(Handle, Uint, const char**, const size_t*, Int*);
  Int (*build)(Handle, Uint, const Handle*, const char*, void*, void*);
  Int (*build_info)(Handle, Handle, Uint, size_t, void*, size_t*);
  Handle (*kernel)(Handle, const char*, Int*);
  Int (*set_arg)(Handle, Uint, size_t, const void*);
  Handle (*buffer)(Handle, Bits, size_t, void*, Int*);
  Handle (*image)(Handle, Bits, const ImageFormat*, const ImageDesc*, void*, Int*);
  Int (*launch)(
      Handle, Handle, Uint, const size_t*, const size_t*, const size_t*, Uint, void*, void*);
  Int (*read_buffer)(Handle, Handle, Uint, size_t, size_t, void*, Uint, void*, void*);
  Int (*read_image)(Handle,
                    Handle,
                    Uint,
                    const size_t*,
                    const size_t*,
                    size_t,
                    size_t,
                    void*,
                    Uint,
                    void*,
                    void*);
  Int (*finish)(Handle);
  Int (*release_memory)(Handle);
  Int (*release_kernel)(Handle);
  Int (*release_program)(Handle);
  Int (*release_queue)(Handle);
  Int (*release_context)(Handle);
};

template <class F>
bool bind(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  return f != nullptr;
}

bool bind_all(void* l, Api& a) {
  return bind(l, "clGetPlatformIDs", a.platforms) && bind(l, "clGetDeviceIDs", a.devices) &&
         bind(l, "clGetDeviceInfo", a.device_info) && bind(l, "clCreateContext", a.context) &&
         bind(l, "clCreateCommandQueue", a.queue) &&
         bind(l, "clCreateProgramWithSource", a.program) && bind(l, "clBuildProgram", a.build) &&
         bind(l, "clGetProgramBuildInfo", a.build_info) && bind(l, "clCreateKernel", a.kernel) &&
         bind(l, "clSetKernelArg", a.set_arg) && bind(l, "clCreateBuffer", a.buffer) &&
         bind(l, "clCreateImage", a.image) && bind(l, "clEnqueueNDRangeKernel", a.launch) &&
         bind(l, "clEnqueueReadBuffer", a.read_buffer) &&
         bind(l, "clEnqueueReadImage", a.read_image) && bind(l, "clFinish", a.finish) &&
         bind(l, "clReleaseMemObject", a.release_memory) &&
         bind(l, "clReleaseKernel", a.release_kernel) &&
         bind(l, "clReleaseProgram", a.release_program) &&
         bind(l, "clReleaseCommandQueue", a.release_queue) &&
         bind(l, "clReleaseContext", a.release_context);
}

Status check(Int code, const char* what) {
  return code == 0 ? Status{} : fail(Errc::kFault, strf("%s: OpenCL error %d", what, code));
}

class Lab final : public OpenClLab {
 public:
  Lab(Api api, Handle context, Handle device, Handle queue, std::string name)
      : api_(api), context_(context), device_(device), queue_(queue), name_(std::move(name)) {}
  ~Lab() override {
    if (program_ != nullptr) (void)api_.release_program(program_);
    (void)api_.release_queue(queue_);
    (void)api_.release_context(context_);
  }
  const std::string& device_name() const override { return name_; }
  Status build(const std::string& source, const std::string& options) override;
  Status run(const std::string& kernel,
             std::span<const OpenClArg> args,
             const int64_t groups[3],
             const int64_t items[3]) override;

 private:
  Api api_;
  Handle context_, device_, queue_, program_ = nullptr;
  std::string name_;

  Result<Handle> memory_of(const OpenClArg& arg) const;
  Status launch(Handle kernel,
                std::span<const OpenClArg> args,
                std::span<Handle> memory,
                const int64_t groups[3],
                const int64_t items[3]);
  Status read_back(const OpenClArg& arg, Handle memory) const;
};

Status Lab::build(const std::string& source, const std::string& options) {
  if (program_ != nullptr) (void)api_.release_program(program_);
  Int code = 0;
  const char* text = source.c_str();
  const size_t size = source.size();
  program_ = api_.program(context_, 1, &text, &size, &code);
  RETURN_IF_ERROR(check(code, "clCreateProgramWithSource"));
  code = api_.build(program_, 1, &device_, options.c_str(), nullptr, nullptr);
  if (code == 0) return {};
  std::string log(1 << 14, '\0');
  size_t used = 0;
  (void)api_.build_info(program_, device_, kBuildLog, log.size(), log.data(), &used);
  log.resize(std::min(used, log.size()));
  return fail(Errc::kCompile, "clBuildProgram: " + log);
}

Result<Handle> Lab::memory_of(const OpenClArg& arg) const {
  Int code = 0;
  Handle memory;
  if (arg.kind == OpenClArg::Kind::kImage) {
    const ImageFormat format{kRgba, arg.is_half ? kHalfFloat : kFloat};
    ImageDesc desc{};
    desc.type = kImage2d;
    desc.width = static_cast<size_t>(arg.width);
    desc.height = static_cast<size_t>(arg.height);
    memory = api_.image(context_, kReadWrite | kCopyHost, &format, &desc, arg.bytes.data(), &code);
    RETURN_IF_ERROR(check(code, "clCreateImage"));
  } else {
    memory =
        api_.buffer(context_, kReadWrite | kCopyHost, arg.bytes.size(), arg.bytes.data(), &code);
    RETURN_IF_ERROR(check(code, "clCreateBuffer"));
  }
  return memory;
}

Status Lab::launch(Handle kernel,
                   std::span<const OpenClArg> args,
                   std::span<Handle> memory,
                   const int64_t groups[3],
                   const int64_t items[3]) {
  for (size_t i = 0; i < args.size(); ++i) {
    const bool scalar = args[i].kind == OpenClArg::Kind::kScalar;
    if (!scalar) {
      ASSIGN_OR_RETURN(memory[i], memory_of(args[i]));
    }
    RETURN_IF_ERROR(
        check(scalar ? api_.set_arg(kernel, static_cast<Uint>(i), 4, &args[i].scalar)
                     : api_.set_arg(kernel, static_cast<Uint>(i), sizeof(Handle), &memory[i]),
              "clSetKernelArg"));
  }
  size_t global[3], local[3];
  for (size_t d = 0; d < 3; ++d) {
    local[d] = static_cast<size_t>(std::max<int64_t>(items[d], 1));
    global[d] = static_cast<size_t>(groups[d]) * local[d];
  }
  RETURN_IF_ERROR(check(api_.launch(queue_, kernel, 3, nullptr, global,
                                    items[0] == 0 ? nullptr : local, 0, nullptr, nullptr),
                        "clEnqueueNDRangeKernel"));
  RETURN_IF_ERROR(check(api_.finish(queue_), "clFinish"));
  for (size_t i = 0; i < args.size(); ++i) {
    if (memory[i] != nullptr) RETURN_IF_ERROR(read_back(args[i], memory[i]));
  }
  return {};
}

Status Lab::read_back(const OpenClArg& arg, Handle memory) const {
  if (arg.kind == OpenClArg::Kind::kBuffer) {
    return check(api_.read_buffer(queue_, memory, 1, 0, arg.bytes.size(), arg.bytes.data(), 0,
                                  nullptr, nullptr),
                 "clEnqueueReadBuffer");
  }
  const size_t origin[3] = {0, 0, 0};
  const size_t region[3] = {static_cast<size_t>(arg.width), static_cast<size_t>(arg.height), 1};
  return check(api_.read_image(queue_, memory, 1, origin, region, 0, 0, arg.bytes.data(), 0,
                               nullptr, nullptr),
               "clEnqueueReadImage");
}

Status Lab::run(const std::string& name,
                std::span<const OpenClArg> args,
                const int64_t groups[3],
                const int64_t items[3]) {
  Int code = 0;
  Handle kernel = api_.kernel(program_, name.c_str(), &code);
  if (Status s = check(code, "clCreateKernel"); !s.ok())
    return fail(Error(s.error()).with("kernel " + name));
  std::vector<Handle> memory(args.size(), nullptr);
  Status done = launch(kernel, args, memory, groups, items);
  for (Handle m : memory) {
    if (m != nullptr) (void)api_.release_memory(m);
  }
  (void)api_.release_kernel(kernel);
  if (!done.ok()) return fail(Error(done.error()).with("kernel " + name));
  return done;
}

// pocl keeps compiled kernels in the home directory; a test leaves nothing there.
void keep_cache_in_tmp() {
  const std::string dir = (std::filesystem::temp_directory_path() / "modeld-pocl-cache").string();
  (void)::setenv("POCL_CACHE_DIR", dir.c_str(), 0);
}

}  // namespace

Result<std::unique_ptr<OpenClLab>> open_opencl_lab() {
  keep_cache_in_tmp();
  // Never closed: drivers start threads that outlive their context.
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(Errc::kUnsupported, strf("no OpenCL loader: %s", dlerror()));
  Api api{};
  if (!bind_all(library, api)) return fail(Errc::kUnsupported, "libOpenCL.so.1 lacks a function");
  Handle platform = nullptr, device = nullptr;
  Uint count = 0;
  if (api.platforms(1, &platform, &count) != 0 || count == 0)
    return fail(Errc::kUnsupported, "no OpenCL platform (install pocl-opencl-icd)");
  if (api.devices(platform, kAnyDevice, 1, &device, &count) != 0 || count == 0)
    return fail(Errc::kUnsupported, "the OpenCL platform has no device");
  char name[256] = {};
  (void)api.device_info(device, kDeviceName, sizeof name - 1, name, nullptr);
  Int code = 0;
  Handle context = api.context(nullptr, 1, &device, nullptr, nullptr, &code);
  RETURN_IF_ERROR(check(code, "clCreateContext"));
  Handle queue = api.queue(context, device, 0, &code);
  RETURN_IF_ERROR(check(code, "clCreateCommandQueue"));
  return std::make_unique<Lab>(api, context, device, queue, name);
}

}  // namespace modeld::testing
