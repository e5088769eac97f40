# consumers_test.sh SOURCE: what src/probe/consumers.sh makes of systemd's properties, environment files and command lines.
# Run by each shell that hosts have.

. "$1/src/probe/lib.sh"
. "$1/src/probe/consumers.sh"
LC_ALL=C
failed=0
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT

is() { # WHAT GOT EXPECTED
  [ "$2" = "$3" ] && return
  printf 'FAILED: %s\n  got:      %s\n  expected: %s\n' "$1" "$2" "$3"
  failed=1
}

words() { printf '%s\n' "$1" | _words | tr '\n' '|'; }
is 'plain words' "$(words 'A=1 B=/x:/y')" 'A=1|B=/x:/y|'
is 'quoted whole' "$(words '"A=b c \"q\" \\" B=')" 'A=b c "q" \|B=|'
is 'single quotes keep backslashes' "$(words "'A=x \\y'")" 'A=x \y|'
is 'escapes of newer systemd; a line break becomes a blank' "$(words "\$'A=x\\ny\\'z' B=1")" "A=x y'z|B=1|"
is 'octal escapes; control characters become blanks' "$(words "\$'A=\\303\\251\\033x'")" "A=é x|"
is 'nothing' "$(words '')" ''

file() { printf "$1" | _env_file | tr '\n' '|'; }
is 'comments and blank lines' "$(file '# A=1\n\n ; B=2\nC=3\n')" 'C=3|'
is 'blanks around' "$(file '  A  =  two words \t\n')" 'A=two words|'
is 'double quotes' "$(file 'A="q # \\$x \\n" \n')" 'A=q # $x \n|'
is 'single quotes' "$(file "A='s \\\\\"p'\n")" 'A=s \"p|'
is 'a quote inside a word is literal' "$(file 'A=x"y"\n')" 'A=x"y"|'
is 'continued line' "$(file 'A=a\\\nb\n')" 'A=ab|'
is 'several lines in quotes' "$(file 'A="x\ny"\nB=1\n')" 'A=x y|B=1|'
is 'CRLF, no end of line' "$(file 'A=1\r\nB=2')" 'A=1|B=2|'
is 'export and names with a hyphen are not taken' "$(file 'export A=1\nB-C=1\n=1\nD=\n')" 'D=|'
is 'nothing is expanded' "$(file 'PATH=/x:$PATH\nA=$(id)\n')" 'PATH=/x:$PATH|A=$(id)|'

mkdir -p "$tree/venv/bin" "$tree/other/bin" "$tree/conda/bin" "$tree/conda/envs/infer/conda-meta" "$tree/tools/bin"
touch "$tree/venv/pyvenv.cfg" "$tree/venv/bin/python3" "$tree/other/bin/python3" "$tree/conda/bin/conda"
chmod +x "$tree"/*/bin/*
printf '#!%s/venv/bin/python3\nimport sys\n' "$tree" >"$tree/tools/bin/serve"
printf '#!/bin/bash\n# source /nowhere/bin/activate\nVENV=%s/venv\nsource "$VENV/bin/activate"\nexec python -m x\n' "$tree" >"$tree/start.sh"
printf '#!/bin/sh\nexec %s/start.sh "$@"\n' "$tree" >"$tree/outer.sh"
printf '#!/bin/sh\nV=%s/venv\nexec ${V}/bin/python3 -m x\n' "$tree" >"$tree/braces.sh"

env_of() { _python_env "$1" "${2:-/usr/bin:/bin}"; }
is 'interpreter' "$(env_of "$tree/venv/bin/python3 -m sglang.launch_server")" "$tree/venv"
is 'interpreter without a venv mark' "$(env_of "$tree/other/bin/python3 -m x")" "$tree/other"
is 'interpreter that cannot be seen' "$(env_of '/nowhere/venv/bin/python -m x')" '/nowhere/venv'
is 'program of an environment' "$(env_of "$tree/venv/bin/vllm serve")" ''
touch "$tree/venv/bin/vllm"
is 'program of an environment, there' "$(env_of "$tree/venv/bin/vllm serve")" "$tree/venv"
is 'first line of a script' "$(env_of "$tree/tools/bin/serve")" "$tree/venv"
is 'activate in a command line' "$(env_of "/bin/bash -lc \"source $tree/venv/bin/activate && exec python -m x\"")" "$tree/venv"
is 'activate in a script, by a variable' "$(env_of "/bin/bash $tree/start.sh")" "$tree/venv"
is 'variable in braces' "$(env_of "$tree/braces.sh --port 1")" "$tree/venv"
is 'scripts are followed one deep' "$(env_of "$tree/outer.sh")" ''
is 'bare name on the PATH of the unit' "$(env_of '/usr/bin/env python3 -m x' "$tree/venv/bin:/usr/bin")" "$tree/venv"
is 'conda by name' "$(env_of "$tree/conda/bin/conda run -n infer python x.py")" "$tree/conda/envs/infer"
is 'conda by prefix' "$(env_of "$tree/conda/bin/conda run -p /data/env python x.py")" '/data/env'
is 'a name without conda is no environment' "$(env_of "/usr/bin/nice -n infer /bin/true")" ''
is 'the system, where there is no other' "$(env_of '/usr/bin/python3 /opt/x.py')" '/usr'
is 'the system does not win over a later one' "$(env_of "/usr/bin/python3 $tree/venv/bin/vllm")" "$tree/venv"
is 'no Python, and no pattern is expanded' "$(env_of '/bin/sleep 9 /*')" ''

printf '#!/bin/sh\n# CUDA_HOME=/x\nexport CUDA_HOME="/opt/cuda"\nexec python3\n' >"$tree/sets.sh"
is 'a script that sets the toolkit' "$(_sets "/bin/sh $tree/sets.sh")" 'CUDA_HOME'
is 'env that sets the PATH' "$(_sets '/usr/bin/env MY_CUDA_PATH=/x PATH=/x python3')" 'PATH'
is 'nothing set' "$(_sets "$tree/start.sh --set CUDA_HOME")" ''

is 'bounded passes output on' "$(bounded 5 echo done)" 'done'
is 'bounded gives up its reader' "$(bounded 1 sh -c 'echo early; exec sleep 5 2>/dev/null')" 'early'

_block='Environment=PATH=/unit HOME=/unit GONE=1 KEPT=1
EnvironmentFiles='$tree'/present (ignore_errors=no)
EnvironmentFiles='$tree'/optional (ignore_errors=yes)
EnvironmentFiles='$tree'/missing file (ignore_errors=no)'
_manager='PATH=/manager
LANG=C'
_user='' _entry=''
printf 'PATH=/file\n' >"$tree/present"
is 'files after Environment=, a missing one named' "$(_unit_variables | tr '\n' '|')" \
  "PATH=/manager|LANG=C|@unit|PATH=/unit|HOME=/unit|GONE=1|KEPT=1|@$tree/present|PATH=/file|!$tree/missing file is missing, and the unit cannot start without|"

_block="$_block
FragmentPath=$tree/a.service
DropInPaths=$tree/10.conf $tree/20.conf"
printf '[Service]\nEnvironment="A=1" PATH=/unit\n' >"$tree/a.service"
printf '[Service]\nEnvironment=HOME=/unit MY_CUDA_HOME=/x\nEnvironment=LANG=C "CUDA_HOME=/pin"\n' >"$tree/10.conf"
printf '[Service]\n# Environment=CUDA_HOME=/y\n' >"$tree/20.conf"
lines() { printf '%b\n' "$1" | _overridden | tr '\t\n' ' |'; }
is 'a file over Environment=' "$(lines 'PATH=/m\n@unit\nPATH=/u\nA=1\nB=x=1\n@/f\nPATH=/f\nB=x=1\nC=3\n!no')" 'PATH /f /u|'
is 'the last of several files' "$(lines '@unit\nA=1\n@/f\nA=2\n@/g\nA=3')" 'A /g 1|'
is 'a later file that says the same as Environment=' "$(lines '@unit\nA=1\n@/f\nA=2\n@/g\nA=1')" ''
records() { _overridden_records "$(printf '%b' "$1")" | tr '\n' ' '; }
is 'the file whose Environment= it is' "$(records 'PATH\t/f\t/unit\nCUDA_HOME\t/f\t/pin')" \
  "overridden=PATH|/f|$tree/a.service|/unit overridden=CUDA_HOME|/f|$tree/10.conf|/pin "
is 'no names but those that matter, no value with the separator' "$(records 'A\t/f\t1\nHOME\t/f\t/a|b')" ''
is 'set in no file that can be seen' "$(records 'CC\t/f\tgcc')" 'overridden=CC|/f||gcc '

cache_places=$(grep -v '^#' "$1/src/probe/cache_places.txt")
roots() { printf '%s\n' "$@" '' | cache_roots | tr '\t\n' ' |'; }
_record= _expected= _places=0
while IFS= read -r _line; do
  case $_line in
  '#'*) ;;
  '> '*) _expected="$_expected${_line#> }|" ;;
  ?*) _record=$_record$_line$newline ;;
  *) [ -z "$_record" ] || { is "$_record" "$(roots "$_record")" "$_expected"; _places=$((_places + 1)); }
    _record= _expected= ;;
  esac
done <<EOF
$(cat "$1/tests/data/cache_places/cases.txt")

EOF
is 'all cases of cache places were read' "$_places" 6
is 'variables move caches, and those of the running process count' \
  "$(roots home=/h unit_env.HOME=/u process_env.HOME=/p unit_env.TRITON_CACHE_DIR=/t unit_env.XDG_CACHE_HOME=/x | cut -d '|' -f 1-3)" \
  'flashinfer /p/.cache/flashinfer|torch_extensions /x/torch_extensions|triton /t'
is 'no home, no path' "$(roots home=)" ''

cat >"$tree/mountinfo" <<'EOF'
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 8:2 / /home ro,noexec - xfs /dev/sdb1 rw
23 21 8:3 / /with\040blank rw - ext4 /dev/sdc1 ro
EOF
on() { printf '%b\n' "$2" | _on_mounts "$tree/mountinfo" "$1"; }
is 'mount options' "$(on '' 'triton\tno\tno\t/home/user\t/home/user/.triton')" 'cache_dirs=triton|no|no|yes|yes|no|/home|/home/user/.triton'
is 'a file system that is read-only as a whole' "$(on '' 'triton\tyes\tyes\t/with blank/x\t/with blank/x')" \
  'cache_dirs=triton|yes|yes|yes|no|no|/with blank|/with blank/x'
is 'names that only begin alike' "$(on '' 'triton\tyes\tyes\t/homely\t/homely')" 'cache_dirs=triton|yes|yes|no|no|no|/|/homely'
is 'quota of its device' "$(on /dev/sda1 'a\tyes\tyes\t/x\t/x' | cut -d '|' -f 6)" 'yes'
is 'quota of another device' "$(on /dev/sda1 'a\tyes\tyes\t/home/x\t/home/x' | cut -d '|' -f 6)" 'no'
is 'quota of a device under another name counts where HOME is' \
  "$(on /dev/mapper/x 'home\tyes\tyes\t/home/x\t/home/x\na\tyes\tyes\t/y\t/y' | cut -d '|' -f 6 | tr '\n' ' ')" 'yes no '

# Where the services are gone through, patterns stand for themselves.
denied() {
  (set -f; ls() { case $- in *f*) return ;; esac; printf 'crw-rw---- 1 0 44 195, 0 Jan 1 00:00 /dev/nvidia0\ncrw-rw-rw- 1 0 0 195, 255 Jan 1 00:00 /dev/nvidiactl\n%s\n' \
    'crw-rw----+ 1 0 0 511, 0 Jan 1 00:00 /dev/nvidia-uvm'; }; _denied 1000 "$1") | tr '\n' '|'
}
is 'nodes of a group that is not its own' "$(denied '1000 27')" 'denied=/dev/nvidia0|'
is 'nodes of a group that is' "$(denied '1000 44')" ''

# Account 1000 of group 1000, and of video.
groups_of() {
  (timeout() { shift; "$@"; }
  id() { echo 1000 44; }
  getent() { case $1:$2 in
    group:video|group:44) echo 'video:x:44:user' ;;
    group:gpu|group:2001) echo 'gpu:x:2001:' ;;
    group:user|group:1000) echo "user:x:1000:$member" ;;
    *) return 2 ;;
    esac; }
  _account=user _entry='user:x:1000:1000::/home/user:/bin/sh' _block=$1
  _unit_groups && echo || echo failed)
}
is 'groups of the account' "$(groups_of 'User=user')" '1000 44'
is 'Group= takes the place of its own' "$(groups_of 'Group=gpu')" '2001 44'
is 'Group= where its own lists it as a member' "$(member=other,user groups_of 'Group=gpu')" '2001 1000 44'
is 'Group= by number, and groups besides, each once' "$(groups_of 'Group=2001
SupplementaryGroups=video user')" '2001 44 1000'
is 'a group that nobody knows' "$(groups_of 'SupplementaryGroups=gone')" 'failed'
is 'groups that are not told in time' "$(timeout() { return 124; }; _account=user _block='' _unit_groups || echo failed)" 'failed'

details() { (_block=$1 _variables='' _vars='' _env='' _service_details) | sort | tr '\n' '|'; }
is 'each line of a property counts' "$(details 'DevicePolicy=closed
DeviceAllow=char-nvidia* rw
DeviceAllow=/dev/fuse rw
BindPaths=/a:/b:rbind /c:/c
ProtectHome=no
PrivateTmp=yes')" 'settings.BindPaths=/a:/b:rbind /c:/c|settings.DeviceAllow=char-nvidia* rw, /dev/fuse rw|settings.DevicePolicy=closed|settings.PrivateTmp=yes|'

# The account's caches are looked at with the groups of the unit, or not at all.
tried() { (as_uid() { echo "$1 in $as_uid_groups" >"$tree/as"; sh -c "$4"; }
  self_uid=7; _account=user _uid=1000 _groups=$1 _pid=0; _cache_dirs /home/user '') | grep '=home'; }
is 'caches are tried with the groups of the unit' "$(tried '2001 44' >"$tree/out"; cat "$tree/as")" '1000 in 2001 44'
is 'without them nothing is claimed' "$(tried '' | cut -d '|' -f 1-3)" 'cache_dirs=home||'

mkdir "$tree/lib" "$tree/nothing"
touch "$tree/lib/libcuda.so.590.44"
ln -s libcuda.so.590.44 "$tree/lib/libcuda.so.1"
libcuda() { (as_owner() { case $1 in */shut/*) return 126 ;; esac; shift; "$@"; }; _libcuda_found "$1"); }
is 'the first directory with a libcuda' "$(libcuda "relative:$tree/nothing::$tree/lib:/x")" "libcuda=$tree/lib/libcuda.so.590.44"
is 'none' "$(libcuda "$tree/nothing:/x")" ''
is 'one that is shut comes first' "$(libcuda "/shut:$tree/lib")" \
  'unknown.libcuda=a directory of LD_LIBRARY_PATH could not be looked into as its owner, or not in time'
is 'one that is shut comes later' "$(libcuda "$tree/lib:/shut")" "libcuda=$tree/lib/libcuda.so.590.44"
is 'the owner of the directory is who looks' \
  "$(as_uid() { echo "$1" >"$tree/as"; }; self_uid=0; owner_uid() { echo 4711; }; _libcuda "$tree/lib"; cat "$tree/as")" '4711'

quotas() { cat >"$tree/quota.txt"; (command() { echo quota; }; may_run() { :; }; timeout() { cat "$tree/quota.txt"; }; _quotas user) | tr '\n' '|'; }
is 'quotas that are used up: blocks, files, grace that ended' "$(quotas <<'EOF'
Disk quotas for user user (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sda1  1000* 1000 1000 - 10 0 0
      /dev/sdb1  10 0 0 5* 5 5 -
      /dev/sdc1  900* 800 1000 none 10 0 0
      /dev/sdd1  900* 800 1000 6days 10 0 0
      /dev/sde1  900 1000 1000 10 0 0
EOF
)" '/dev/sda1|/dev/sdb1|/dev/sdc1|'

is 'a search that was cut' "$(timeout() { echo /x/venv/pyvenv.cfg; return 124; }; _search "$tree" | tr '\n' '|')" "/x/venv|!$tree|"
is 'a complete list of consumers' "$(need_all "a=1$newline!end services$newline!end processes"; echo went on)" 'went on'
is 'a list of consumers that was cut' "$(need_all "a=1$newline!end processes"; echo went on)" \
  "${newline}the list of consumers is not whole: services failed, took too long or gave a line above 4000 bytes"
is 'a systemd that answers nothing' "$(systemctl() { return 1; }; _show -p Id || echo failed)" failed
is 'a systemd that answers in part' "$(systemctl() { echo Id=a; return 1; }; _show -p Id || echo failed)" failed
is 'a systemd that answers' "$(systemctl() { echo Id=a; }; _show -p Id; printf %s "$_shown")" "Id=a"
is 'names of mounts with blanks' "$(_nets=$(printf '%s\n' '/home/nfs share' /data); _remote '/home/nfs share'; _remote /home; _remote /opt; _remote /data/x)" "in${newline}above${newline}in"

exit $failed
