# SPDX-License-Identifier: BSD-2-Clause
# bash completion for pyheaptrace.  Made by scripts/gen-docs.py.

_pyheaptrace_pids()
{
	local exe
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe" 2>/dev/null) in
		*python*) exe=${exe#/proc/}; echo "${exe%/exe}" ;;
		esac
	done
}

_pyheaptrace()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=
	case ${COMP_WORDS[1]} in
	pymalloc|rss|census|record|diff|report|export|leaks|run|check) [ "$COMP_CWORD" -gt 1 ] && command=${COMP_WORDS[1]} ;;
	esac
	COMPREPLY=()
	case $command:$prev in
	:-p|:--pid|pymalloc:-p|pymalloc:--pid|rss:-p|rss:--pid|census:-p|census:--pid|record:-p|record:--pid|leaks:-p|leaks:--pid)
		COMPREPLY=($(compgen -W "$(_pyheaptrace_pids)" -- "$cur"))
		return ;;
	:-o|:--output|pymalloc:--diff|pymalloc:-o|pymalloc:--output|rss:-o|rss:--output|census:--diff|census:-o|census:--output|record:-o|record:--output|diff:-o|diff:--output|report:-o|report:--output|leaks:-o|leaks:--output|run:-o|run:--output)
		COMPREPLY=($(compgen -f -- "$cur"))
		return ;;
	:--group-by|diff:--group-by|report:--group-by|run:--group-by)
		COMPREPLY=($(compgen -W "traceback line function file thread" -- "$cur"))
		return ;;
	:-f|:--format|diff:-f|diff:--format|report:-f|report:--format|run:-f|run:--format)
		COMPREPLY=($(compgen -W "text json flamegraph" -- "$cur"))
		return ;;
	:--collector|record:--collector|leaks:--collector|run:--collector)
		COMPREPLY=($(compgen -W "auto trampoline probe growth" -- "$cur"))
		return ;;
	pymalloc:-f|pymalloc:--format)
		COMPREPLY=($(compgen -W "text json debugmallocstats" -- "$cur"))
		return ;;
	rss:-f|rss:--format|census:-f|census:--format|leaks:-f|leaks:--format)
		COMPREPLY=($(compgen -W "text json" -- "$cur"))
		return ;;
	diff:--sort)
		COMPREPLY=($(compgen -W "size count growth sure" -- "$cur"))
		return ;;
	report:--sort)
		COMPREPLY=($(compgen -W "size count allocated" -- "$cur"))
		return ;;
	report:report)
		COMPREPLY=($(compgen -W "table tree summary stats series flamegraph" -- "$cur"))
		return ;;
	export:--to)
		COMPREPLY=($(compgen -W "pprof speedscope folded folded-allocated csv json tracemalloc" -- "$cur"))
		return ;;
	leaks:--group-by)
		COMPREPLY=($(compgen -W "traceback line function file" -- "$cur"))
		return ;;
	:--comm|:--cgroup|:-d|:--duration|:-i|:--interval|:-n|:--top|:-R|:--sample-interval|:--seed|:--max-overhead|pymalloc:--every|pymalloc:-n|pymalloc:--count|rss:-n|rss:--top|census:-n|census:--top|census:--referrers|census:--every|census:--count|record:-d|record:--duration|record:--every|record:-R|record:--sample-interval|record:--temporary|record:--seed|record:--max-overhead|diff:--from|diff:--to|diff:--include|diff:--exclude|diff:--domain|diff:-n|diff:--top|report:--at|report:--include|report:--exclude|report:--domain|report:-n|report:--top|export:--at|export:--include|export:--exclude|export:--domain|export:-o|export:--output|leaks:--for|leaks:-i|leaks:--interval|leaks:--older-than|leaks:-n|leaks:--top|leaks:-R|leaks:--sample-interval|leaks:--seed|leaks:--max-overhead|run:-d|run:--duration|run:-n|run:--top|run:-R|run:--sample-interval|run:--seed|run:--max-overhead)
		return ;;
	esac
	case $command in
	pymalloc)
		COMPREPLY=($(compgen -W "-p --pid -f --format --freeze --diff --every -n --count -o --output -v --verbose -h --help" -- "$cur")) ;;
	rss)
		COMPREPLY=($(compgen -W "-p --pid -n --top --freeze -f --format -o --output -v --verbose -h --help" -- "$cur")) ;;
	census)
		COMPREPLY=($(compgen -W "-p --pid -n --top -a --all --referrers --freeze --every --count --diff -f --format -o --output -v --verbose -h --help" -- "$cur")) ;;
	record)
		COMPREPLY=($(compgen -W "-p --pid -o --output -d --duration --every -R --sample-interval --threads --temporary --seed --collector --max-overhead -v --verbose -h --help" -- "$cur")) ;;
	diff)
		COMPREPLY=($(compgen -W "--from --to --group-by --cumulative --include --exclude --all-frames --domain -n --top --sort -f --format -o --output -v --verbose -h --help" -- "$cur")) ;;
	report)
		COMPREPLY=($(compgen -W "--at --temporary --group-by --cumulative --include --exclude --all-frames --domain -n --top --sort -f --format -o --output -v --verbose -h --help" -- "$cur")) ;;
	export)
		COMPREPLY=($(compgen -W "--to --at --temporary --include --exclude --all-frames --domain -o --output -v --verbose -h --help" -- "$cur")) ;;
	leaks)
		COMPREPLY=($(compgen -W "-p --pid --for -i --interval --older-than --group-by -n --top -f --format -o --output -R --sample-interval --seed --collector --max-overhead -v --verbose -h --help" -- "$cur")) ;;
	run)
		COMPREPLY=($(compgen -W "--follow -d --duration --merge -n --top --group-by --threads --peak --temporary -f --format -o --output -R --sample-interval --seed --collector --max-overhead -v --verbose -h --help" -- "$cur")) ;;
	check) ;;
	*)
		COMPREPLY=($(compgen -W "pymalloc rss census record diff report export leaks run check -p --pid --comm --cgroup --all --follow -d --duration --merge -i --interval -n --top --group-by --threads --peak --temporary -f --format -o --output --plain -R --sample-interval --seed --collector --max-overhead -v --verbose --version -h --help" -- "$cur")) ;;
	esac
	# Commands that take files.
	[ "${#COMPREPLY[@]}" -gt 0 ] || case $command in check | "") ;; *) COMPREPLY=($(compgen -f -- "$cur")) ;; esac
}
complete -o filenames -F _pyheaptrace pyheaptrace
