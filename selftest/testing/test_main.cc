// Entry of every unit-test program: plain GoogleTest, so each program takes --gtest_filter and
// --gtest_list_tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
