# Completion for fish: the commands with what they do, their options, and the states of checks; else files.
function __timing_wheel_commands
    timing-wheel --help 2>/dev/null | string match -r '^  [a-z][a-z-]+ +[A-Z].*' | string replace -r '^ +(\S+) +' '$1\t'
end
function __timing_wheel_options
    timing-wheel (commandline -opc)[2] --help 2>/dev/null | string match -ar -- '--[a-z-]+'
end
complete -c timing-wheel -n 'test (count (commandline -opc)) = 1' -f -a '(__timing_wheel_commands)'
complete -c timing-wheel -n 'test (commandline -opc)[-1] = --state' -f \
    -a 'pending due waiting running retrying suspect dead'
complete -c timing-wheel -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__timing_wheel_options)'
