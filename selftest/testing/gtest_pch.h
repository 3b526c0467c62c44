// The one precompiled header: the test framework and the containers nearly every test uses.
// Guards instead of #pragma once: gcc warns about the latter in a precompiled header.
#ifndef MODELD_GTEST_PCH_H_
#define MODELD_GTEST_PCH_H_
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#endif  // MODELD_GTEST_PCH_H_
