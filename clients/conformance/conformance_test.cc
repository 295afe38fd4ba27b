// Runs operations.json with the C++ client against a real `ramcloudd dev`; see README.md.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/testing/dev_cluster.h"
#include "ramcloud/ramcloud.h"

namespace ramcloud {
namespace {

using Json = nlohmann::json;

std::string bytes_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  std::string bytes;
  if (json.contains("repeat")) {
    for (size_t i = 0; i < json["times"].get<size_t>(); ++i) bytes += json["repeat"];
    return bytes;
  }
  const std::string hex = json.at("hex");
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoul(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

/// One case with its table and the versions it has saved.
class Case {
 public:
  Case(Client& client, const Json& json) : client_(client), json_(json) {
    auto table = client.create_table(json["name"].get<std::string>(), json.value("span", 1u));
    if (!table) ADD_FAILURE() << table.error().to_string();
    if (table) table_ = table->id;
  }
  void run() {
    for (const Json& one : json_["steps"]) {
      SCOPED_TRACE(one.dump().substr(0, 300));
      step(one);
    }
    EXPECT_TRUE(client_.drop_table(json_["name"].get<std::string>()).has_value());
  }

 private:
  void step(const Json& s) {
    const std::string op = s["op"];
    if (op.starts_with("multi_")) return multi(op, s);
    if (op.ends_with("_table")) return on_table(op, s);
    if (op == "scan" || op == "count") return scan(op, s);
    const std::string key = bytes_of(s["key"]);
    const Conditions conditions = conditions_of(s);
    if (op == "read") return check_object(s, client_.read(table_of(s), key, conditions));
    if (op == "write") {
      return check_version(s, client_.write(table_of(s), key, bytes_of(s["value"]), conditions));
    }
    if (op == "remove") return check_version(s, client_.remove(table_of(s), key, conditions));
    if (op == "increment") {
      return check_sum(s, client_.increment(table_of(s), key, s["delta"], conditions));
    }
    if (op == "increment_double") {
      return check_sum(s, client_.increment_double(table_of(s), key, s["delta"], conditions));
    }
    FAIL() << "there is no operation " << op;
  }

  /// What an item says, or many alike.
  static std::vector<Json> items_of(const Json& s) {
    if (s.contains("items")) return s["items"];
    std::vector<Json> items(s["count"], s);
    for (size_t i = 0; i < items.size(); ++i) {
      items[i]["key"] = s["key_prefix"].get<std::string>() + std::to_string(i);
    }
    return items;
  }
  void multi(const std::string& op, const Json& s) {
    const std::vector<Json> items = items_of(s);
    if (op == "multi_write") {
      std::vector<MultiObject> objects;
      for (const Json& item : items) {
        objects.push_back(
            {table_of(item), bytes_of(item["key"]), bytes_of(item["value"]), conditions_of(item)});
      }
      return check_all(items, client_.multi_write(objects));
    }
    std::vector<MultiKey> keys;
    for (const Json& item : items) {
      keys.push_back({table_of(item), bytes_of(item["key"]), conditions_of(item)});
    }
    if (op == "multi_remove") return check_all(items, client_.multi_remove(keys));
    const auto found = client_.multi_read(keys);
    ASSERT_EQ(found.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) check_object(items[i], found[i]);
  }
  void check_all(const std::vector<Json>& items, const std::vector<Expected<uint64_t>>& versions) {
    ASSERT_EQ(versions.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) check_version(items[i], versions[i]);
  }

  void on_table(const std::string& op, const Json& s) {
    const std::string name = bytes_of(s["name"]);
    if (op == "create_table") {
      check_error(s, client_.create_table(name, s.value("span", 1u)));
    } else if (op == "open_table") {
      check_error(s, client_.open_table(name));
    } else {
      check_error(s, client_.drop_table(name));
    }
  }
  void scan(const std::string& op, const Json& s) {
    std::multiset<std::string> keys;
    Scan all = client_.scan(table_, op == "count");
    for (;;) {
      auto object = all.next();
      ASSERT_TRUE(object.has_value()) << object.error().to_string();
      if (*object == nullptr) break;
      keys.insert((*object)->key);
    }
    if (op == "count") {
      EXPECT_EQ(keys.size(), s["objects"].get<size_t>());
      return;
    }
    std::multiset<std::string> wanted;
    for (const Json& key : s["keys"]) wanted.insert(bytes_of(key));
    EXPECT_EQ(keys, wanted);
  }

  /// True: it went well, as it should.
  template <typename T>
  bool check_error(const Json& s, const Expected<T>& outcome) {
    const std::string wanted = s.value("error", "OK");
    const std::string got = outcome ? "OK" : outcome.error().name();
    EXPECT_EQ(got, wanted) << (outcome ? "" : outcome.error().message);
    return outcome.has_value();
  }
  void check_object(const Json& s, const Expected<Object>& object) {
    if (!check_error(s, object)) return;
    if (s.contains("value")) {
      EXPECT_TRUE(object->value == bytes_of(s["value"])) << object->value.substr(0, 100);
    }
    versions(s, object->version);
  }
  void check_version(const Json& s, const Expected<uint64_t>& version) {
    if (check_error(s, version)) versions(s, *version);
  }
  template <typename N>
  void check_sum(const Json& s, const Expected<Sum<N>>& sum) {
    if (!check_error(s, sum)) return;
    EXPECT_EQ(sum->value, s["sum"].get<N>());
    versions(s, sum->version);
  }
  void versions(const Json& s, uint64_t version) {
    if (s.contains("version_is")) EXPECT_EQ(version, saved(s["version_is"]));
    if (s.contains("newer_than")) EXPECT_GT(version, saved(s["newer_than"]));
    if (s.contains("save")) saved_[s["save"]] = version;
  }

  uint64_t saved(const std::string& name) {
    if (name == "none") return 0;
    EXPECT_TRUE(saved_.contains(name)) << name;
    return saved_[name];
  }
  Conditions conditions_of(const Json& s) {
    Conditions conditions;
    if (!s.contains("if")) return conditions;
    const Json& rules = s["if"];
    conditions.if_absent_fail = rules.value("absent_fail", false);
    conditions.if_exists_fail = rules.value("exists_fail", false);
    if (rules.contains("version")) conditions.only_version = saved(rules["version"]);
    if (rules.contains("newer_than")) conditions.only_newer_than = saved(rules["newer_than"]);
    return conditions;
  }
  uint64_t table_of(const Json& s) const { return s.value("table_id", table_); }

  Client& client_;
  const Json& json_;
  uint64_t table_ = 0;
  std::map<std::string, uint64_t> saved_;
};

TEST(Conformance, Operations) {
  daemon::DevCluster cluster({"--servers", "3", "--log-memory", "64MiB"});
  auto client = Client::connect(cluster.address(), {.timeout = std::chrono::minutes(2)});
  ASSERT_TRUE(client.has_value()) << client.error().to_string();
  std::ifstream file(RAMCLOUD_CONFORMANCE_DIR "/operations.json");
  const Json all = Json::parse(file);
  ASSERT_GE(all["cases"].size(), 10u);
  for (const Json& one : all["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    Case(*client, one).run();
  }
}

}  // namespace
}  // namespace ramcloud
