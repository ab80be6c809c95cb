// The program that LTTng-UST (compiled with -DLTTNG) and bpftrace trace. Each line on standard input is a request:
//   EVENT COUNT 0       fires COUNT events in a loop, and prints the nanoseconds of each
//   EVENT COUNT RATE    fires COUNT events at RATE a second, and prints the nanoseconds that this took
// EVENT is the first letter of an event below.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifdef LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoints.h"
#endif

// A hit stands for a function with a frame. The kernel emulates the instruction that begins it, instead of single-stepping it.
#define FUNCTION(name, type)                                                    \
    __attribute__((noinline)) void name(type argument) {                        \
        __asm__ volatile("" : : "r"(argument), "r"(__builtin_frame_address(0))); \
    }
FUNCTION(hit_count, uint64_t)
FUNCTION(hit_number, uint64_t)
FUNCTION(hit_string, const char *)

// In data that the program writes, so that the page is in memory: bpftrace does not wait for a page.
static volatile char text[] = "sixteen bytes o?";

static void fire(char event, uint64_t from, uint64_t to) {
#define EACH(call)                          \
    for (uint64_t n = from; n < to; n++)    \
        call;                               \
    break
    switch (event) {
#ifdef LTTNG
    case '2': EACH(lttng_ust_tracepoint(bench, two, n, n * 3));
    case 't': EACH(lttng_ust_tracepoint(bench, text, n, (const char *)text));
#endif
    case 'c': EACH(hit_count(n));
    case 'n': EACH(hit_number(7));
    case 's': EACH(hit_string((const char *)text));
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int main(void) {
    char event;
    uint64_t count, rate;
    text[15] = 'k';
    while (scanf(" %c %" SCNu64 " %" SCNu64, &event, &count, &rate) == 3) {
        uint64_t start = now();
        for (uint64_t made = 0, due = count; made < count; made = due) {
            if (rate != 0) {
                usleep(100);
                due = (uint64_t)((double)(now() - start) * 1e-9 * (double)rate);
                due = due < count ? due : count;
            }
            fire(event, made, due);
        }
        printf("%" PRIu64 "\n", now() - start);
        fflush(stdout);
    }
}
