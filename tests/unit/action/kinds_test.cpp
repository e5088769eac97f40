#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "action/parts.hpp"
#include "support/catch.hpp"

// Parameters and what was inspected in, the difference out.

namespace trueup {
namespace {

using nlohmann::json;

Difference differ(std::string_view kind, const json& params, const std::string& inspected) {
  const auto difference = find_action(kind)->diff(params, inspected);
  if (!difference) throw std::runtime_error(to_string(difference.error()));
  return *difference;
}

bool refuses(const Difference& difference, std::string_view why) {
  for (const auto& each : difference.refused)
    if (each.find(why) != each.npos) return true;
  return false;
}

TEST_CASE("what was inspected and says nothing is an error, never a step", "[unit][action]") {
  for (const auto& kind : action_kinds()) {
    CAPTURE(kind->name());
    for (const auto* inspected : {"", "\n", "=\n=\n", "x=y\n", "manager"})
      CHECK_FALSE(
          kind->diff(json::object({{"unit", "x.service"}, {"state", "started"}, {"version", "13.0"}}), inspected)
              .has_value());
  }
}

TEST_CASE("file: content, mode and owner are one state", "[unit][action][file]") {
  const json params = {{"path", "/etc/x/y"}, {"content", "new\n"}};
  const std::string seen =
      "decided_by=0\nowner_uid=0\nstate=file 644 root root aaaa\nwanted=file 644 root root bbbb\n"
      "current=old\ncontent=new\n";
  const auto difference = differ("file", params, seen);
  CHECK(difference.needed);
  CHECK(difference.refused.empty());
  CHECK(difference.diff == "--- /etc/x/y\n+++ /etc/x/y\n@@ -1,1 +1,1 @@\n-old\n+new\n");
  CHECK_FALSE(differ("file", params, "owner_uid=0\nstate=file 644 root root b\nwanted=file 644 root root b\n").needed);
  CHECK(differ("file", params, "decided_by=0\nowner_uid=0\nstate=absent\nwanted=file 644 root root b\n").needed);
  CHECK(refuses(differ("file", params, "owner_uid=0\nstate=link\ntarget=/etc/shadow\nwanted=file 644 root root b\n"),
                "is a link to /etc/shadow"));
  CHECK(refuses(differ("file", params, "owner_uid=0\nstate=directory\nwanted=file 644 root root b\n"), "is no file"));
  CHECK(refuses(differ("file", params, "decided_by=1000\nowner_uid=0\nstate=absent\nwanted=file 644 root root b\n"),
                "uid 1000 decides"));
  CHECK(refuses(differ("file", params, "decided_by=65534\nowner_uid=0\nstate=absent\nwanted=file 644 root root b\n"),
                "many accounts"));
  CHECK(refuses(differ("file", params, "decided_by=0\nowner_uid=\nstate=absent\nwanted=file 644 root root b\n"),
                "no account root"));
}

const std::string kUnit =
    "Id=x.service\nLoadState=loaded\nUnitFileState=enabled\nFragmentPath=/etc/systemd/system/x.service\nPAMName=\n"
    "drop_in=/etc/systemd/system/x.service.d/zz-trueup.conf\n";

TEST_CASE("systemd_override: what it sets, and what makes it useless", "[unit][action][systemd_override]") {
  const json params = {
      {"unit", "x.service"}, {"environment", {{"CUDA_HOME", "/usr/local/cuda-13.0"}}}, {"unset", {"CUDA_PATH"}}};
  const auto seen = kUnit +
                    "now.CUDA_HOME=/usr/local/cuda\nunset.CUDA_PATH=yes\nconf_is=absent\nconf_wanted=aa\n"
                    "conf_content=[Service]\nenv_is=absent\nloaded=no\n";
  const auto difference = differ("systemd_override", params, seen);
  CHECK(difference.needed);
  CHECK(difference.refused.empty());
  CHECK(difference.current == "CUDA_HOME=/usr/local/cuda, CUDA_PATH not set");
  CHECK(difference.wanted == "CUDA_HOME=/usr/local/cuda-13.0, CUDA_PATH not set");
  REQUIRE(difference.predicted.size() == 2);
  const auto& set = std::get<SetVariable>(difference.predicted[0]);
  CHECK((set.consumer == "unit x.service" && set.name == "CUDA_HOME" && set.value == "/usr/local/cuda-13.0"));

  const auto done = kUnit + "conf_is=aa\nconf_wanted=aa\nenv_is=absent\nloaded=yes\n";
  CHECK_FALSE(differ("systemd_override", params, done).needed);
  CHECK(differ("systemd_override", params, kUnit + "conf_is=aa\nconf_wanted=aa\nloaded=no\n").needed);
  CHECK(differ("systemd_override", params, done + "env_wanted=bb\n").needed);

  CHECK(refuses(differ("systemd_override", params, done + "pending=y.service\n"), "files of y.service changed"));
  CHECK(refuses(differ("systemd_override", params, done + "own.CUDA_HOME=/opt/run.sh\n"), "/opt/run.sh"));
  CHECK(refuses(differ("systemd_override", params, done + "pam=PATH CUDA_HOME \n"), "PAMName="));
  CHECK(refuses(differ("systemd_override", params, done + "unknown.CUDA_HOME=/etc/default/x is missing\n"),
                "is missing"));
  CHECK(refuses(differ("systemd_override", params, "conf_is=other\n" + kUnit), "is a link or a directory"));
  const std::string rest = "drop_in=/etc/systemd/system/x.service.d/zz-trueup.conf\n";
  CHECK(refuses(differ("systemd_override", params, "LoadState=masked\n" + rest), "masked"));
  CHECK(refuses(differ("systemd_override", params, "LoadState=not-found\n" + rest), "not-found"));
  CHECK(refuses(differ("systemd_override", params, "LoadState=loaded\nId=y.service\n" + rest),
                "another name of y.service"));
  CHECK(refuses(differ("systemd_override", params, "LoadState=loaded\nId=x.service\nUnitFileState=transient\n" + rest),
                "transient"));
  CHECK(refuses(differ("systemd_override", params,
                       "LoadState=loaded\nId=x.service\nFragmentPath=/run/systemd/generator/x.service\n" + rest),
                "generated"));
}

TEST_CASE("systemd_override: a secret is not told", "[unit][action][systemd_override]") {
  const json params = {{"unit", "x.service"}, {"environment", {{"HF_TOKEN", "hf_abcdefghijk"}}}};
  const auto difference = differ("systemd_override", params,
                                 kUnit +
                                     "unset.HF_TOKEN=yes\nconf_is=absent\nconf_wanted=a\n"
                                     "conf_content=Environment=\"HF_TOKEN=***\"\n");
  CHECK(difference.wanted == "HF_TOKEN=***");
  CHECK(difference.diff.find("hf_") == std::string::npos);
}

TEST_CASE("service: what a stop takes with it is refused", "[unit][action][service]") {
  const json stop = {{"unit", "x.service"}, {"state", "stopped"}};
  const json start = {{"unit", "x.service"}, {"state", "started"}};
  const std::string up = "Id=x.service\nLoadState=loaded\nFragmentPath=/x\nactive=up\n",
                    down = "Id=x.service\nLoadState=loaded\nactive=down\n";
  CHECK(differ("service", stop, up).needed);
  CHECK(differ("service", stop, up).restarts == std::vector<std::string>{"x.service"});
  CHECK_FALSE(differ("service", stop, up).irreversible.empty());
  CHECK_FALSE(differ("service", stop, down).needed);
  CHECK(differ("service", start, down).needed);
  CHECK_FALSE(differ("service", start, up).needed);
  for (const auto* key : {"RequiredBy", "BoundBy", "ConsistsOf"})
    CHECK(refuses(differ("service", stop, up + key + "=y.service\n"), "y.service would be stopped with it"));
  CHECK(refuses(differ("service", stop, up + "TriggeredBy=x.socket\n"), "x.socket"));
  CHECK(refuses(differ("service", start, "LoadState=not-found\n"), "not-found"));
  // Undoing waits for a stop that takes as long as systemd lets it, at most half an hour, and for the start after it.
  for (const auto& params : {stop, start})
    CHECK(find_action("service")->undo(params, {}).limit > std::chrono::minutes(30 + 10));
  auto half = start;
  half["restart"] = true;
  CHECK(differ("service", half, "Id=x.service\nLoadState=loaded\n").needed);
  half["health"] = {{"url", "http://h:1/health"}};
  CHECK(differ("service", half, up + "http=none\n").wanted.find("not exercised") != std::string::npos);
  CHECK(differ("service", half, up + "http=curl\n").wanted.find("http://h:1/health") != std::string::npos);
}

TEST_CASE("cache: only what is one, is the owner's, is local and is not in use", "[unit][action][cache]") {
  const std::string path = "/home/svc/.cache/flashinfer/0.6.7";
  const json params = {{"path", path}, {"owner", "svc"}};
  const auto seen = [&](const std::string& more) {
    return more + "kind=directory\nreal=" + path +
           "\nidentity=64:12:1001\ndecided_by=1001\nhome=/home/svc\naccount=svc\nfstype=ext4\n";
  };
  const auto difference = differ("cache", params, seen(""));
  CHECK(difference.refused.empty());
  CHECK(difference.needed);
  CHECK(difference.data == "64:12:1001");
  CHECK(std::get<RemoveCache>(difference.predicted.at(0)).path == path);
  CHECK_FALSE(differ("cache", params, "kind=absent\n").needed);
  CHECK(refuses(differ("cache", params, seen("kind=link\n")), "is a link"));
  CHECK(refuses(differ("cache", params, seen("fstype=nfs4\n")), "nfs4"));
  CHECK(refuses(differ("cache", params, seen("fstype=fuse.sshfs\n")), "fuse"));
  CHECK(refuses(differ("cache", params, seen("mount=yes\n")), "mount point"));
  CHECK(refuses(differ("cache", params, seen("decided_by=1002\n")), "uid 1002 decides"));
  CHECK(refuses(differ("cache", params, seen("decided_by=65534\n")), "many accounts"));
  CHECK(refuses(differ("cache", params, seen("account=other\n")), "expected svc"));
  CHECK(refuses(differ("cache", params, seen("user=vllm.service\n")), "in use by vllm.service"));
  CHECK(refuses(differ("cache", params, seen("real=/home/svc\n")), "too short"));
  CHECK(refuses(differ("cache", params, seen("real=/srv/models/llama/weights\n")), "nothing in its name"));
  CHECK(refuses(differ("cache", params, seen("real=/opt/venv/lib/site-packages/flashinfer\n")), "no JIT cache"));
  CHECK(refuses(differ("cache", params, seen("identity=\n")), "could not be looked at"));
  const json elsewhere = {{"path", "/data/jit/flashinfer/0.6.7"}};
  CHECK(
      differ("cache", elsewhere,
             "kind=directory\nreal=/data/jit/flashinfer/0.6.7\nidentity=1:2:0\ndecided_by=0\nhome=/root\nfstype=xfs\n")
          .refused.empty());
}

TEST_CASE("command: its check decides", "[unit][action][command]") {
  const json params = {{"check", {"/bin/a"}}, {"apply", {"/bin/b", "c"}}, {"irreversible", "it is gone"}};
  CHECK_FALSE(differ("command", params, "status=0\n").needed);
  CHECK(differ("command", params, "status=1\n").needed);
  CHECK(differ("command", params, "status=1\n").irreversible == "it is gone");
  CHECK(refuses(differ("command", params, "status=124\n"), "status 124"));
}

TEST_CASE("alternatives: every state but the wanted one is changed", "[unit][action][alternatives]") {
  const json params = {{"group", "cuda"}, {"path", "/usr/local/cuda-12.8"}};
  const std::string wanted =
      "link_is=to /etc/alternatives/cuda\nentry=to /usr/local/cuda-12.8\nleads_to=/usr/local/cuda-12.8\n"
      "link=/usr/local/cuda\nstatus=manual\nvalue=/usr/local/cuda-12.8\ncandidate=/usr/local/cuda-12.8 "
      "128\ntarget=yes\n";
  CHECK_FALSE(differ("alternatives", params, wanted).needed);
  CHECK(differ("alternatives", params, wanted).refused.empty());
  for (const auto* other :
       {"status=auto\n", "value=/usr/local/cuda-13.0\n", "entry=to /usr/local/cuda-13.0\n", "link_is=to /opt/cuda\n"})
    CHECK(differ("alternatives", params, other + wanted).needed);
  CHECK(refuses(differ("alternatives", params, "link_is=directory\n" + wanted), "is no link"));
  CHECK(refuses(differ("alternatives", params, "link_is=absent\nentry=absent\ntarget=yes\n"), "there is no group"));
  CHECK(refuses(differ("alternatives", params, "link_is=x\nentry=absent\nstatus=auto\nlink=/l\ntarget=yes\n"),
                "not in the group"));
  CHECK(refuses(differ("alternatives", params,
                       "link_is=x\nentry=absent\nstatus=auto\nlink=/l\ncandidate=/usr/local/cuda-12.8 1\n"),
                "is not there"));
}

TEST_CASE("packages: what a package manager would do beyond what is asked is refused", "[unit][action][package]") {
  const json params = {{"packages", {"ninja-build"}}};
  const std::string seen = "manager=apt\nasked=ninja-build \nstep=install ninja-build 1.11\ndownload=200\ndisk=400\n";
  const auto difference = differ("package", params, seen);
  CHECK(difference.needed);
  CHECK(difference.refused.empty());
  CHECK(difference.current == "ninja-build is not installed");
  CHECK(difference.wanted == "ninja-build 1.11");
  CHECK(difference.download_bytes == 200 * 1024);
  CHECK(difference.disk_bytes == 400 * 1024);
  CHECK(difference.data == "install ninja-build 1.11");
  CHECK_FALSE(differ("package", params, "manager=apt\nasked=ninja-build 1.11\n").needed);
  CHECK(refuses(differ("package", params, seen + "gate=it would remove x\n"), "it would remove x"));
  CHECK(refuses(differ("package", params, seen + "short=/var\n"), "room on /var"));
  CHECK(refuses(differ("package", params, seen + "broken=x is half done\n"), "half done"));
  CHECK(refuses(differ("package", params, "manager=apt\nasked=ninja-build \nunresolved=E: no such\n"), "no such"));
  CHECK(refuses(differ("package", params, "manager=zypper\n"), "zypper is not supported yet"));
  CHECK(refuses(differ("package", params, "manager=dnf5\n"), "dnf5 is not supported yet"));
  CHECK(refuses(differ("package", params, "manager=none\n"), "neither apt nor dnf"));
  CHECK(differ("package", params, seen + "old=no x\n").irreversible.find("x") != std::string::npos);
}

TEST_CASE("cuda_toolkit: beside what is there, from a repository that has it or the one that is given",
          "[unit][action][cuda_toolkit]") {
  json params = {{"version", "13.0"}};
  const std::string head = "manager=apt\nasked=cuda-toolkit-13-0 \n";
  const auto difference = differ("cuda_toolkit", params,
                                 head +
                                     "step=install cuda-toolkit-13-0 13.0.2-1\ntoolkit=absent\n"
                                     "cuda.leads_to=/usr/local/cuda-12.8\ncuda.exists=yes\n");
  CHECK(difference.needed);
  CHECK(difference.refused.empty());
  CHECK(difference.wanted == "CUDA 13.0 in /usr/local/cuda-13.0, /usr/local/cuda still /usr/local/cuda-12.8");
  CHECK(std::get<AddToolkit>(difference.predicted.at(0)).toolkit.path == "/usr/local/cuda-13.0");
  CHECK_FALSE(differ("cuda_toolkit", params, "manager=apt\nasked=cuda-toolkit-13-0 13.0\ntoolkit=packages\n").needed);
  CHECK_FALSE(differ("cuda_toolkit", params, head + "step=install x 1\ntoolkit=other\n").needed);
  CHECK(refuses(differ("cuda_toolkit", params, head + "unresolved=E: Unable to locate\ntoolkit=absent\n"),
                "Unable to locate"));
  CHECK(refuses(differ("cuda_toolkit", params, "manager=zypper\ntoolkit=absent\n"), "zypper"));
  CHECK(refuses(differ("cuda_toolkit", params, "manager=dnf5\ntoolkit=absent\n"), "dnf5"));
  params["repository"] = {{"url", "file:///srv/cuda"}, {"most", "1GiB"}};
  const auto later = differ("cuda_toolkit", params, head + "unresolved=E: Unable to locate\ntoolkit=absent\n");
  CHECK(later.refused.empty());
  CHECK(later.wanted.find("resolved at apply, from file:///srv/cuda") != std::string::npos);
  CHECK(later.download_bytes == 1ULL << 30);
  params["packages"] = "minimal";
  CHECK(find_action("cuda_toolkit")->inspect(params).text.find("cuda-nvcc-13-0") != std::string::npos);
}

}  // namespace
}  // namespace trueup
