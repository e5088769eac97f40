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
  "PATH=/manager|LANG=C|PATH=/unit|HOME=/unit|GONE=1|KEPT=1|PATH=/file|!$tree/missing file is missing, and the unit cannot start without|"

is 'a search that was cut' "$(timeout() { echo /x/venv/pyvenv.cfg; return 124; }; _search "$tree" | tr '\n' '|')" "/x/venv|!$tree|"
is 'a complete list of consumers' "$(services() { :; }; processes() { kv pid 1; end_record; }; need_all "$(consumers)"; echo went on)" 'went on'
is 'a list of consumers that was cut' \
  "$(services() { exec sleep 9; }; processes() { :; }; bounded() { shift; [ "$2" = services ] || "$@"; }; need_all "$(consumers)"; echo went on)" \
  "${newline}the list of consumers was cut: its services took too long"

exit $failed
