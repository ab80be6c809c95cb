#!/bin/sh
# The checklist of docs/freebsd.md, on a machine that runs FreeBSD: loads the example module, lists its probe,
# traces with it, unloads it, and says PASS or FAIL for each step. Ends with status 0 if nothing failed.
#
#     checklist.sh [-r ROUNDS] [-n NATIVE.ko] [-p PROVIDER.ko]
#
# -n  the example module for the kernel's own sdt   (cargo xtask kmod)
# -p  the one with a provider of its own            (cargo xtask kmod --route provider)
# -r  how often it is loaded and unloaded in the last step (100)
#
# For root, on a machine on which nothing depends. DTrace's kernel modules are loaded if they are not.

set -u

rounds=100
native=
provider=
while getopts n:p:r: option; do
	case $option in
	n) native=$OPTARG ;;
	p) provider=$OPTARG ;;
	r) rounds=$OPTARG ;;
	*) exit 2 ;;
	esac
done
if [ -z "$native$provider" ]; then
	echo "usage: $0 [-r rounds] [-n native.ko] [-p provider.ko]" >&2
	exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/sdt-checklist.XXXXXX") || exit 2
consumer=
passed=0
failed=0

clean_up() {
	[ -n "$consumer" ] && kill "$consumer" 2>/dev/null && wait "$consumer" 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 2' INT TERM HUP

# pass WHAT; fail WHAT, with what was seen in $work/seen.
pass() {
	passed=$((passed + 1))
	echo "PASS $route: $1"
}

fail() {
	failed=$((failed + 1))
	echo "FAIL $route: $1"
	[ -s "$work/seen" ] && sed 's/^/     | /' "$work/seen"
	return 1
}

# check WHAT COMMAND...: passes if the command succeeds.
check() {
	what=$1
	shift
	if "$@" >"$work/seen" 2>&1; then pass "$what"; else fail "$what"; fi
}

# A program that nobody else runs, so that its execs can be counted, and a script that runs it three times.
prepare() {
	cp /usr/bin/true "$work/traced" || exit 2
	printf '%s\n%s\n%s\n' "$work/traced" "$work/traced" "$work/traced" >"$work/thrice"
}

is_loaded() {
	kldstat -n "$module.ko"
}

is_not_loaded() {
	! kldstat -q -n "$module.ko"
}

# One row, and the module's.
is_listed() {
	dtrace -l -n "$probe" | tee "$work/out"
	[ "$(awk '$2 == "proc" && $NF == "exec-success"' "$work/out" | grep -c " $module ")" -eq 1 ]
}

is_not_listed() {
	! dtrace -l -n "$probe" 2>&1 | grep " $module "
}

is_described() {
	dtrace -l -v -n "$probe" | tee "$work/out"
	grep -q 'args\[0\]: char \*' "$work/out" && grep -q 'Dependency Class: ISA' "$work/out"
}

# Each exec once, with its path.
fires() {
	dtrace -q -n "$probe"'{ printf("%s\n", stringof(arg0)); }' -c "/bin/sh $work/thrice" |
	    tee "$work/out"
	[ "$(grep -cx "$work/traced" "$work/out")" -eq 3 ]
}

has_typed_argument() {
	dtrace -q -n "$probe"'{ printf("%s\n", stringof(args[0])); }' -c "/bin/sh $work/thrice" |
	    tee "$work/out"
	[ "$(grep -cx "$work/traced" "$work/out")" -eq 3 ]
}

aggregates() {
	dtrace -q -n "$probe"'{ @[stringof(arg0)] = count(); }' -c "/bin/sh $work/thrice" |
	    tee "$work/out"
	[ "$(awk -v path="$work/traced" '$1 == path { print $2 }' "$work/out")" = 3 ]
}

# The first frame is the function that fired, and so is the caller's module; below are the kernel's.
has_stack() {
	dtrace -q -n "$probe"'{ stack(); exit(0); }' -c "/bin/sh $work/thrice" | tee "$work/out"
	awk 'NF' "$work/out" | head -1 | grep -q "$module.ko\`" &&
	    awk 'NF' "$work/out" | sed 1d | grep -q 'kernel`'
}

# Starts a consumer that counts, and waits until the probe is enabled.
start_consumer() {
	dtrace -n "$probe"'/stringof(arg0) == "'"$work/traced"'"/{ @ = count(); }' \
	    >"$work/counted" 2>"$work/started" &
	consumer=$!
	for _ in $(seq 60); do
		grep -q 'matched 1 probe' "$work/started" && return 0
		kill -0 "$consumer" 2>/dev/null || break
		sleep 1
	done
	cat "$work/started"
	return 1
}

# Ends it, which prints the count. (Shells have their background jobs ignore SIGINT.)
stop_consumer() {
	kill -TERM "$consumer" && wait "$consumer"
	consumer=
	cat "$work/counted"
	[ "$(awk 'NF == 1 && $1 ~ /^[0-9]+$/ { print $1 }' "$work/counted")" = "$1" ]
}

is_refused() {
	if kldunload "$module"; then
		echo "it is gone, with a consumer that has its probe enabled"
		return 1
	fi
	is_loaded
}

run_thrice() {
	/bin/sh "$work/thrice"
}

# Loaded and unloaded again and again, traced every tenth time.
lasts() {
	round=0
	while [ "$round" -lt "$rounds" ]; do
		round=$((round + 1))
		if ! kldload "$file" || ! is_listed; then
			echo "round $round: not loaded or not listed"
			return 1
		fi
		if [ $((round % 10)) -eq 0 ] && ! fires; then
			echo "round $round: not fired"
			return 1
		fi
		if ! kldunload "$module"; then
			echo "round $round: not unloaded"
			return 1
		fi
	done
}

# All steps for one module.
check_module() {
	route=$1
	file=$2
	module=$(basename "$file" .ko)
	probe="proc:$module::exec-success"
	if ! is_not_loaded; then
		echo "$module is loaded already: kldunload $module" >"$work/seen"
		fail "is not loaded yet"
		return
	fi
	check "kldload takes the module" kldload "$file" || return
	check "kldstat has it" is_loaded
	check "dtrace -l lists the probe" is_listed
	check "dtrace -l -v describes it" is_described
	check "three execs are three hits, with their paths" fires
	check "args[0] is a string" has_typed_argument
	check "they can be aggregated" aggregates
	check "stack() begins with the module's function" has_stack
	check "a consumer enables the probe" start_consumer &&
		check "kldunload is refused while it is enabled" is_refused &&
		check "it goes on firing" run_thrice &&
		check "and all hits are counted" stop_consumer 3
	check "kldunload takes it away" kldunload "$module" || return
	check "kldstat has it no more" is_not_loaded
	check "nor has dtrace -l" is_not_listed
	check "$rounds times loaded, listed, traced and unloaded" lasts
}

route=machine
check "it is FreeBSD, and we are root" test "$(uname -s) $(id -u)" = "FreeBSD 0"
kldload -n dtraceall 2>/dev/null || kldload -n sdt 2>/dev/null
check "DTrace is there" dtrace -l -n 'dtrace:::BEGIN'
if [ "$failed" -eq 0 ]; then
	prepare
	[ -n "$native" ] && check_module native "$native"
	[ -n "$provider" ] && check_module provider "$provider"
fi
echo "$passed passed, $failed failed, on $(uname -srm)"
[ "$failed" -eq 0 ]
