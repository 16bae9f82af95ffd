# SPDX-License-Identifier: BSD-2-Clause
# fish completion for pyheaptrace.  Made by scripts/gen-docs.py.

function __pyheaptrace_pids
    for exe in /proc/*/exe
        if string match -q '*python*' -- (readlink $exe 2>/dev/null)
            string replace -r '/proc/(\d+)/exe' '$1' -- $exe
        end
    end
end

complete -c pyheaptrace -f
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a pymalloc -d 'statistics of CPython'\''s small-object allocator, read from outside'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a rss -d 'where the resident memory of a Python process goes'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a census -d 'live objects of a Python process by type, read from outside'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a record -d 'record snapshots of a Python program'\''s live heap into a file'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a diff -d 'what changed between two snapshots of a live heap'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a report -d 'reports from a recording'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a export -d 'convert a recording for other programs'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a leaks -d 'which lines of a Python program leak memory, and how sure it is'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -a check -d 'can this host run it'

complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s p -l pid -x -a '(__pyheaptrace_pids)' -d 'process to trace'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s d -l duration -x -d 'stop after TIME'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s i -l interval -x -d 'refresh every TIME'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s n -l top -x -d 'rows of the table'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -l group-by -x -a 'traceback line function file' -d 'traceback, line, function or file'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s f -l format -x -a 'text json flamegraph' -d 'text, json or, at the end, flamegraph'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s o -l output -r -F -d 'write to FILE instead of standard output'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -l plain -d 'on a terminal'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s R -l sample-interval -x -d 'one sample per BYTES allocated, on average'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -l seed -x -d 'seed of the sampling, for runs that can be repeated'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -l collector -x -a 'auto trampoline probe growth' -d 'auto, trampoline, probe or growth'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -l max-overhead -x -d 'refuse or narrow rather than slow the program down by more than PCT percent'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s v -l verbose -d 'say what is being done'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -l version -d 'print the version'
complete -c pyheaptrace -n 'not __fish_seen_subcommand_from pymalloc rss census record diff report export leaks check' -s h -l help -d 'print this'

complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -s p -l pid -x -a '(__pyheaptrace_pids)' -d 'process to read'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -s f -l format -x -a 'text json debugmallocstats' -d 'text, json or debugmallocstats'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -l freeze -d 'stop the process while it is read, for at most MS milliseconds'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -l diff -r -F -d 'compare with FILE, which --format json wrote'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -l every -x -d 'look again every TIME and show what changed'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -s n -l count -x -d 'stop after N looks'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -s o -l output -r -F -d 'write to FILE instead of standard output'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -s v -l verbose -d 'say more on standard error'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -s h -l help -d 'print the help'
complete -c pyheaptrace -n '__fish_seen_subcommand_from pymalloc' -F

complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -s p -l pid -x -a '(__pyheaptrace_pids)' -d 'the process'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -s n -l top -x -d 'rows in lists'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -l freeze -d 'stop the process while it is read (milliseconds)'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -s f -l format -x -a 'text json' -d 'text|json'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -s o -l output -r -F -d 'write there instead of to stdout'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -s v -l verbose -d 'say more on standard error'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -s h -l help -d 'print the help'
complete -c pyheaptrace -n '__fish_seen_subcommand_from rss' -F

complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s p -l pid -x -a '(__pyheaptrace_pids)' -d 'the process'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s n -l top -x -d 'rows in lists'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s a -l all -d 'by size class, too'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -l referrers -x -d 'who refers to WHAT'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -l freeze -d 'stop the process while it is read'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -l every -x -d 'print what changed since the census before'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -l count -x -d 'that many times'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -l diff -r -F -d 'what changed since OLD, a file of -f json -o OLD'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s f -l format -x -a 'text json' -d 'text|json'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s o -l output -r -F -d 'write there instead of to stdout'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s v -l verbose -d 'say more on standard error'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -s h -l help -d 'print the help'
complete -c pyheaptrace -n '__fish_seen_subcommand_from census' -F

complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -s p -l pid -x -a '(__pyheaptrace_pids)' -d 'process to trace'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -s o -l output -r -F -d 'the capture'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -s d -l duration -x -d 'stop after TIME'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -l every -x -d 'a snapshot every TIME'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -s R -l sample-interval -x -d 'one sample per BYTES allocated, on average'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -l seed -x -d 'seed of the sampling, for runs that can be repeated'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -l collector -x -a 'auto trampoline probe growth' -d 'auto, trampoline, probe or growth'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -l max-overhead -x -d 'refuse or narrow rather than slow the program down by more than PCT percent'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -s v -l verbose -d 'say what is being done'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -s h -l help -d 'print this'
complete -c pyheaptrace -n '__fish_seen_subcommand_from record' -F

complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l from -x -d '0, 1, 2 ..., first, last or peak (most live bytes)'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l to -x -d 'the same, of FILE_B where there are two'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l group-by -x -a 'traceback line function file' -d 'traceback, line, function or file'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l cumulative -d 'count a stack for every frame in it'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l include -x -d 'only files like GLOB'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l exclude -x -d 'no files like GLOB'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l all-frames -d 'GLOBs look at the whole stack, not only where it allocates'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l domain -x -d 'libc, pymalloc, pool, mmap, fault'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -s n -l top -x -d 'rows'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -l sort -x -a 'size count growth sure' -d 'size (|difference|, the default, as compare_to), count, growth (largest first), sure (what is beyond noise)'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -s f -l format -x -a 'text json flamegraph' -d 'text, json, which has all rows, or flamegraph, one HTML file for a browser'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -s o -l output -r -F -d 'write to FILE instead of standard output'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -s v -l verbose -d 'say more on standard error'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -s h -l help -d 'print this'
complete -c pyheaptrace -n '__fish_seen_subcommand_from diff' -F

complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l at -x -d 'snapshot 0, 1, 2 ..., first, last'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l group-by -x -a 'traceback line function file' -d 'traceback, line, function or file'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l cumulative -d 'count a stack for every frame in it'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l include -x -d 'only files like GLOB'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l exclude -x -d 'no files like GLOB'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l all-frames -d 'GLOBs look at the whole stack, not only where it allocates'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l domain -x -d 'libc, pymalloc, pool, mmap, fault'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -s n -l top -x -d 'rows'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -l sort -x -a 'size count allocated' -d 'size'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -s f -l format -x -a 'text json flamegraph' -d 'of table and series'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -s o -l output -r -F -d 'write to FILE instead of standard output'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -s v -l verbose -d 'say more on standard error'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -s h -l help -d 'print this'
complete -c pyheaptrace -n '__fish_seen_subcommand_from report' -F -a 'table tree summary stats series flamegraph'

complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -l to -x -a 'pprof speedscope folded folded-allocated csv json tracemalloc' -d 'one of those above'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -l at -x -d 'snapshot 0, 1, 2 ..., first, last'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -l include -x -d 'only files like GLOB'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -l exclude -x -d 'no files like GLOB'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -l all-frames -d 'GLOBs look at the whole stack, not only where it allocates'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -l domain -x -d 'libc, pymalloc, pool, mmap, fault'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -s o -l output -x -d 'write to OUT instead of standard output'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -s v -l verbose -d 'say more on standard error'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -s h -l help -d 'print this'
complete -c pyheaptrace -n '__fish_seen_subcommand_from export' -F

complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s p -l pid -x -a '(__pyheaptrace_pids)' -d 'process to trace'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -l for -x -d 'watch for TIME'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s i -l interval -x -d 'look every TIME'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -l older-than -x -d 'judge blocks of this age, so that shorter-lived ones are no matter'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -l group-by -x -a 'traceback line function file' -d 'traceback, line, function or file'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s n -l top -x -d 'leaks, and other sites, at most'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s f -l format -x -a 'text json' -d 'text or json, which has all sites'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s o -l output -r -F -d 'write to FILE instead of standard output'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s R -l sample-interval -x -d 'one sample per BYTES allocated, on average'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -l seed -x -d 'seed of the sampling, for runs that can be repeated'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -l collector -x -a 'auto trampoline probe growth' -d 'auto, trampoline, probe or growth'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -l max-overhead -x -d 'refuse or narrow rather than slow the program down by more than PCT percent'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s v -l verbose -d 'say what is being done'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -s h -l help -d 'print this'
complete -c pyheaptrace -n '__fish_seen_subcommand_from leaks' -F
