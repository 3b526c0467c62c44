// What the installed files say, judged by systemd's own tools.
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "selftest/systemd/row.h"

namespace modeld::systemd_check {
namespace {

constexpr const char* kUnits[] = {kDaemon, kSelftest, kUnavailable};
constexpr double kMostExposure = 2.0;

Result<std::string> files_are_understood(Stage&) {
  std::vector<std::string> argv = {"systemd-analyze", "verify", "--man=no"};
  for (const char* unit : kUnits) argv.push_back(join_path(kUnitDir, unit));
  ASSIGN_OR_RETURN(const std::string said, tool_output(argv));
  // A key it does not know is only a warning to it.
  if (!trim(said).empty()) return fail(Errc::kInvalid, "verify says: " + std::string(trim(said)));
  return strf("%zu units", std::size(kUnits));
}

// The figure at the end of "Overall exposure level for X: 1.4 OK".
Result<double> exposure_of(const std::string& unit) {
  ASSIGN_OR_RETURN(const std::string said,
                   tool_output({"systemd-analyze", "security", "--no-pager", "--offline=true",
                                join_path(kUnitDir, unit)}));
  const std::string key = "exposure level for " + unit + ": ";
  const size_t at = said.find(key);
  if (at == std::string::npos) return fail(Errc::kInvalid, "no exposure told for " + unit);
  const std::string rest = said.substr(at + key.size());
  return parse_double(rest.substr(0, rest.find(' ')));
}

Result<std::string> little_is_exposed(Stage&) {
  std::string out;
  for (const char* unit : kUnits) {
    ASSIGN_OR_RETURN(const double exposure, exposure_of(unit));
    if (exposure > kMostExposure)
      return fail(Errc::kInvalid,
                  strf("exposure of %s is %.1f (limit %.1f)", unit, exposure, kMostExposure));
    out += strf("%s%s %.1f", out.empty() ? "" : ", ", unit, exposure);
  }
  return out + strf(" (limit %.1f)", kMostExposure);
}

// The lines of a unit from User= to the end of its section: who it is and what it may.
Result<std::set<std::string>> rights_of(const std::string& unit) {
  ASSIGN_OR_RETURN(const std::string text, read_text(join_path(kUnitDir, unit)));
  std::set<std::string> out;
  bool inside = false;
  for (const std::string& line : split(text, '\n')) {
    inside = (inside || line.rfind("User=", 0) == 0) && line.rfind('[', 0) != 0;
    if (inside && !line.empty() && line[0] != '#') out.insert(line);
  }
  return out;
}

Result<std::string> selftest_has_the_daemons_rights(Stage&) {
  ASSIGN_OR_RETURN(const auto daemon, rights_of(kDaemon));
  ASSIGN_OR_RETURN(const auto selftest, rights_of(kSelftest));
  if (daemon.size() < 20)
    return fail(Errc::kInvalid, "the daemon's unit has hardly any rights set");
  std::vector<std::string> differ;
  std::set_symmetric_difference(daemon.begin(), daemon.end(), selftest.begin(), selftest.end(),
                                std::back_inserter(differ));
  if (!differ.empty())
    return fail(Errc::kMismatch, "the boot self-test has other rights: " + join(differ, ", "));
  return strf("%zu lines alike", daemon.size());
}

bool is_member(const char* group, const char* user) {
  const struct group* const g = getgrnam(group);
  if (g == nullptr) return false;
  for (char** m = g->gr_mem; *m != nullptr; ++m)
    if (std::string(*m) == user) return true;
  return false;
}

Result<std::string> accounts_and_directories(Stage&) {
  const passwd* const user = getpwnam("modeld");
  if (user == nullptr) return fail(Errc::kNotFound, "there is no user modeld");
  if (user->pw_uid == 0 || std::string(user->pw_shell).find("nologin") == std::string::npos)
    return fail(Errc::kInvalid, "modeld is no system user without a shell");
  for (const char* group : {"video", "render"})
    if (!is_member(group, "modeld"))
      return fail(Errc::kInvalid, std::string("modeld is not in group ") + group);
  const struct {
    const char* path;
    mode_t mode;
  } dirs[] = {{"/run/modeld", 02770}, {"/var/lib/modeld", 0750}, {"/var/cache/modeld", 0750}};
  for (const auto& dir : dirs) {
    struct stat st {};
    if (stat(dir.path, &st) != 0) return fail_errno(Errc::kIo, dir.path, errno);
    if ((st.st_mode & 07777) != dir.mode || st.st_uid != user->pw_uid || st.st_gid != user->pw_gid)
      return fail(Errc::kInvalid, strf("%s has mode %o and owner %u:%u", dir.path,
                                       st.st_mode & 07777U, st.st_uid, st.st_gid));
  }
  return std::string("user, groups, 3 directories");
}

}  // namespace

std::vector<Row> unit_rows() {
  return {
      {"verify", "systemd-analyze verify has nothing to say", files_are_understood},
      {"exposure", "systemd-analyze security: at most 2.0", little_is_exposed},
      {"same-rights", "the boot self-test runs with the daemon's rights",
       selftest_has_the_daemons_rights},
      {"accounts", "sysusers and tmpfiles make what the units need", accounts_and_directories},
  };
}

}  // namespace modeld::systemd_check
