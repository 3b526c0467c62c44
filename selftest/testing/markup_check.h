// A strict reader of XML as our reports write it: elements, attributes in double quotes, the five
// entities. It refuses whatever is not well-formed and keeps elements with their text, for tests.
// Contract: `error` is empty or says what is wrong and where. Threading: any.
#pragma once

#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace modeld::testing {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;          // directly inside, entities resolved
  std::vector<size_t> open;  // elements around it, outermost first
};

class Markup {
 public:
  explicit Markup(std::string_view input) : in_(input) { read(); }

  std::vector<Element> elements;  // in order of their start tags
  std::string error;

  size_t count(const std::string& name,
               const std::string& attribute,
               const std::string& value) const {
    size_t n = 0;
    for (const Element& e : elements) {
      const auto at = e.attributes.find(attribute);
      n += e.name == name && at != e.attributes.end() && at->second == value ? 1 : 0;
    }
    return n;
  }

 private:
  void fail(const std::string& what) {
    if (error.empty()) error = what + " at byte " + std::to_string(at_);
  }
  bool take(std::string_view word) {
    if (in_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void skip_space() {
    while (at_ < in_.size() && std::isspace(static_cast<unsigned char>(in_[at_])) != 0) at_++;
  }
  std::string take_name() {
    const size_t from = at_;
    while (at_ < in_.size() && (std::isalnum(static_cast<unsigned char>(in_[at_])) != 0 ||
                                in_[at_] == '-' || in_[at_] == ':'))
      at_++;
    if (from == at_) fail("a name is missing");
    return std::string(in_.substr(from, at_ - from));
  }
  // Text up to one of `ends`, which stays.
  std::string take_text(std::string_view ends) {
    std::string out;
    while (at_ < in_.size() && ends.find(in_[at_]) == std::string_view::npos) {
      const auto c = static_cast<unsigned char>(in_[at_]);
      if (c < 0x20 && c != '\n' && c != '\t') fail("a control character");
      if (c == '<') fail("a bare <");
      if (c != '&') {
        out += in_[at_++];
        continue;
      }
      const std::pair<std::string_view, char> entities[] = {
          {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
      bool is_known = false;
      for (const auto& [text, value] : entities) {
        if (is_known || !take(text)) continue;
        out += value;
        is_known = true;
      }
      if (!is_known) {
        fail("a bare &");
        at_++;
      }
    }
    return out;
  }
  void read_start() {
    Element e;
    e.name = take_name();
    e.open = open_;
    for (skip_space(); error.empty() && at_ < in_.size() && in_[at_] != '>' && in_[at_] != '/';
         skip_space()) {
      const std::string key = take_name();
      if (!take("=\"")) fail("attribute " + key + " has no value");
      if (!e.attributes.emplace(key, take_text("\"<")).second) fail("attribute " + key + " twice");
      if (!take("\"")) fail("attribute " + key + " does not end");
    }
    const bool is_empty = take("/");
    if (!take(">")) fail("tag " + e.name + " does not end");
    elements.push_back(std::move(e));
    if (!is_empty) open_.push_back(elements.size() - 1);
  }
  void read() {
    if (take("<?xml")) at_ = in_.find("?>", at_) + 2;
    skip_space();
    if (take("<!DOCTYPE html>")) skip_space();
    while (error.empty() && at_ < in_.size()) {
      if (take("</")) {
        const std::string name = take_name();
        if (open_.empty() || elements[open_.back()].name != name || !take(">"))
          return fail("</" + name + "> closes nothing");
        open_.pop_back();
      } else if (take("<")) {
        if (open_.empty() && !elements.empty()) return fail("a second root");
        read_start();
      } else {
        const std::string text = take_text("<");
        if (!open_.empty())
          elements[open_.back()].text += text;
        else if (text.find_first_not_of(" \n\t") != std::string::npos)
          fail("text outside the root");
      }
    }
    if (error.empty() && !open_.empty()) fail("<" + elements[open_.back()].name + "> stays open");
    if (error.empty() && elements.empty()) fail("no element");
  }

  std::string_view in_;
  size_t at_ = 0;
  std::vector<size_t> open_;
};

}  // namespace modeld::testing
