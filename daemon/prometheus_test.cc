// The text as a strict reader of the format sees it, and the reader itself: what is not the format
// must be refused.
#include "daemon/prometheus.h"

#include "selftest/testing/prometheus_parser.h"

namespace modeld::daemon {
namespace {

using testing_prometheus::Families;

std::string why_refused(const std::string& text) {
  const auto parsed = testing_prometheus::parse(text);
  return parsed.ok() ? "accepted" : parsed.error().what;
}

TEST(Prometheus, FamiliesAndSamplesAreThoseOfTheFormat) {
  PrometheusText t(4096);
  t.family("a_total", MetricType::kCounter, "Some.");
  t.sample({{"model", "road"}}, 3);
  t.family("b_seconds", MetricType::kGauge, "Other.");
  t.sample({}, 0.25);
  EXPECT_EQ(t.text(),
            "# HELP a_total Some.\n# TYPE a_total counter\na_total{model=\"road\"} 3\n"
            "# HELP b_seconds Other.\n# TYPE b_seconds gauge\nb_seconds 0.25\n");
  EXPECT_TRUE(testing_prometheus::parse(t.text()).ok());
}

TEST(Prometheus, LabelsAndHelpAreEscaped) {
  PrometheusText t(4096);
  t.family("a", MetricType::kGauge, "back\\slash and\nnewline");
  t.sample({{"text", "a \"b\" \\ c\nd, e}=1"}}, 1);
  EXPECT_NE(t.text().find("# HELP a back\\\\slash and\\nnewline\n"), std::string_view::npos);
  const auto parsed = testing_prometheus::parse(t.text());
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  EXPECT_EQ(parsed->at("a").samples.count("a{text=a \"b\" \\ c\nd, e}=1}"), 1u);
}

TEST(Prometheus, NumbersKeepTheirValue) {
  PrometheusText t(4096);
  t.family("a", MetricType::kGauge, "Any.");
  t.sample({{"n", "large"}}, 9007199254740991.0);
  t.sample({{"n", "small"}}, 0.000125);
  t.sample({{"n", "inf"}}, std::numeric_limits<double>::infinity());
  t.sample({{"n", "minus"}}, -std::numeric_limits<double>::infinity());
  t.sample({{"n", "nan"}}, std::nan(""));
  const auto parsed = testing_prometheus::parse(t.text());
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  const auto& a = parsed->at("a").samples;
  EXPECT_EQ(a.at("a{n=large}"), 9007199254740991.0);
  EXPECT_EQ(a.at("a{n=small}"), 0.000125);
  EXPECT_EQ(a.at("a{n=inf}"), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(a.at("a{n=nan}")));
}

TEST(Prometheus, AHistogramIsCumulativeAndEndsInItsCount) {
  Histogram h;
  for (const int64_t ns : {0, 50'000, 50'001, 3'000'000}) h.add(ns);
  h.add(5'000'000'000);  // beyond the last bound
  EXPECT_EQ(h.at_most(0), 2u) << "a bound counts itself";
  EXPECT_EQ(h.at_most(1), 3u);
  EXPECT_EQ(h.at_most(Histogram::kBoundsNs.size() - 1), 4u);
  PrometheusText t(8192);
  t.family("a_seconds", MetricType::kHistogram, "Any.");
  t.histogram({{"model", "road"}}, h);
  t.histogram({{"model", "cabin"}}, Histogram());
  const auto parsed = testing_prometheus::parse(t.text());
  ASSERT_TRUE(parsed.ok()) << parsed.error().what << "\n" << t.text();
  const auto& a = parsed->at("a_seconds").samples;
  EXPECT_EQ(a.at("a_seconds_count{model=road}"), 5);
  EXPECT_EQ(a.at("a_seconds_bucket{le=0.0001,model=road}"), 3);
  EXPECT_EQ(a.at("a_seconds_bucket{le=+Inf,model=road}"), 5);
  EXPECT_NEAR(a.at("a_seconds_sum{model=road}"), 5.003100001, 1e-8);
}

TEST(Prometheus, WhatDoesNotFitIsLeftOutWhole) {
  PrometheusText t(60);
  t.family("a", MetricType::kGauge, "Any.");
  t.sample({{"model", "road"}}, 1);
  EXPECT_TRUE(t.is_whole());
  t.sample({{"model", "cabin"}}, 2);
  EXPECT_FALSE(t.is_whole());
  EXPECT_EQ(t.text(), "# HELP a Any.\n# TYPE a gauge\na{model=\"road\"} 1\n");
  t.clear();
  EXPECT_TRUE(t.is_whole());
  EXPECT_EQ(t.text(), "");
}

TEST(PrometheusReader, RefusesWhatIsNotTheFormat) {
  const std::string head = "# HELP a Any.\n# TYPE a gauge\n";
  EXPECT_EQ(why_refused(head + "a 1\n"), "accepted");
  const std::pair<std::string, std::string> wrong[] = {
      {"a 1\n", "sample before its head"},
      {"# HELP a Any.\na 1\n", "sample before its head"},
      {head + "a 1", "no newline"},
      {head + "b 1\n", "b among the samples of a"},
      {head + "a 1\na 1\n", "comes twice"},
      {head + "a{x=\"1\",x=\"2\"} 1\n", "label 'x' comes twice"},
      {head + "a{x=\"1} 1\n", "does not end"},
      {head + "a{x=\"\\t\"} 1\n", "escape"},
      {head + "a{9=\"1\"} 1\n", "no label"},
      {head + "a one\n", "no number"},
      {head + "a inf\n", "no number"},
      {head + head, "comes twice"},
      {"# HELP a\n# TYPE a gauge\n", "without a help text"},
      {"# HELP a Any.\n# TYPE b gauge\n", "TYPE of another family"},
      {"# HELP a Any.\n# TYPE a counter\na 1\n", "end in _total"},
      {"# HELP a_total Any.\n# TYPE a_total gauge\na_total 1\n", "end in _total"},
      {"# HELP a_total Any.\n# TYPE a_total counter\na_total -1\n", "negative"},
      {"# HELP a Any.\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n",
       "not cumulative"},
      {"# HELP a Any.\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
       "do not agree"},
      {"# HELP a Any.\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 1\n", "do not agree"},
  };
  for (const auto& [text, why] : wrong) EXPECT_THAT(why_refused(text), testing::HasSubstr(why));
}

TEST(PrometheusReader, FindsACounterThatFell) {
  const auto of = [](const std::string& value) {
    return *testing_prometheus::parse("# HELP a_total Any.\n# TYPE a_total counter\na_total " +
                                      value + "\n");
  };
  EXPECT_EQ(testing_prometheus::first_fallen(of("1"), of("1")), "");
  EXPECT_EQ(testing_prometheus::first_fallen(of("2"), of("1")), "a_total fell");
  EXPECT_EQ(testing_prometheus::first_fallen(of("2"), Families()), "a_total is gone");
}

}  // namespace
}  // namespace modeld::daemon
