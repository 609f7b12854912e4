# Completion for bash: the commands, their options, and the states of checks. A store is completed as a file.
_timing_wheel() {
  local command=${COMP_WORDS[1]-} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "status list show why cancel reschedule run-now retry delete pause resume drain export
      import migrate audit check serve --help" -- "$word")
  elif [[ $before == --state ]]; then
    mapfile -t COMPREPLY < <(compgen -W "pending due waiting running retrying suspect dead" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(timing-wheel "$command" --help 2>/dev/null | grep -o -e '--[a-z-]*')" -- \
      "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "${word#sqlite:}")
  fi
}
complete -o default -F _timing_wheel timing-wheel
