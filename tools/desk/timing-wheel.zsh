#compdef timing-wheel
# Completion for zsh: the commands with what they do, their options, and the states of checks; else files.
local -a found
if ((CURRENT == 2)); then
  found=(${(f)"$(timing-wheel --help 2>/dev/null | sed -n -E 's/^  ([a-z][a-z-]+) +([A-Z].*)/\1:\2/p')"})
  _describe command found
elif [[ $words[CURRENT-1] == --state ]]; then
  compadd pending due waiting running retrying suspect dead
elif [[ $words[CURRENT] == -* ]]; then
  compadd -- ${(f)"$(timing-wheel $words[2] --help 2>/dev/null | grep -o -e '--[a-z-]*')"}
else
  compset -P 'sqlite:'
  _files
fi
