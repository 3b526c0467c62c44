// A suite's result for machines (one JSON object), for people at a terminal (a table), and as a
// page: one HTML file that loads nothing. Contract: pure functions but for write_report; the same
// result gives the same bytes; the page is well-formed XML whatever names and texts hold.
// Threading: any.
#pragma once

#include <string>

#include "hal/base/json.h"
#include "hal/base/status.h"

#include "selftest/boot/runner.h"

namespace modeld::selftest {

Json result_json(const SuiteResult& result);
std::string result_text(const SuiteResult& result);
std::string result_page(const SuiteResult& result);
// DIR/selftest.json and DIR/index.html; makes DIR, replaces the files.
Status write_report(const std::string& dir, const SuiteResult& result);

// "31 passed, 1 failed, 0 not run in 1.92 s"
std::string closing_line(const SuiteResult& result);

}  // namespace modeld::selftest
