// The tracepoints of LTTng-UST. lttng/tracepoint-event.h includes this file several times.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tracepoints.h"

#if !defined(TRACEPOINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(bench, two, LTTNG_UST_TP_ARGS(uint64_t, first, uint64_t, second),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, first, first)
                        lttng_ust_field_integer(uint64_t, second, second)))
LTTNG_UST_TRACEPOINT_EVENT(bench, text, LTTNG_UST_TP_ARGS(uint64_t, number, const char *, text),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)
                        lttng_ust_field_string(text, text)))
#endif
#include <lttng/tracepoint-event.h>
