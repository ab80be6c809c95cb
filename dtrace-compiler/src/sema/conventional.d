/*
 * What C's kernels and their headers declare under the same names everywhere, as far as programs in D use it. Each
 * declaration is read when a program first says its name, unless the program declares that name itself.
 *
 * Widths are FreeBSD's on a machine of 64 bits where systems differ, and so are numbers of address families, since that
 * is what sdt-framework speaks.
 */

/* <sys/types.h> */
typedef unsigned char u_char;
typedef unsigned short u_short;
typedef unsigned int u_int;
typedef unsigned long u_long;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef uint8_t u_int8_t;
typedef uint16_t u_int16_t;
typedef uint32_t u_int32_t;
typedef uint64_t u_int64_t;
typedef long long longlong_t;
typedef int64_t quad_t;
typedef uint64_t u_quad_t;
typedef char *caddr_t;
typedef const char *c_caddr_t;
typedef uint32_t uid_t;
typedef uint32_t gid_t;
typedef int32_t lwpid_t;
typedef int32_t projid_t;
typedef int32_t taskid_t;
typedef int32_t zoneid_t;
typedef int32_t processorid_t;
typedef int32_t psetid_t;
typedef int32_t chipid_t;
typedef int32_t lgrp_id_t;
typedef uint64_t dev_t;
typedef uint32_t major_t;
typedef uint32_t minor_t;
typedef uint64_t ino_t;
typedef uint16_t mode_t;
typedef uint64_t nlink_t;
typedef int64_t off_t;
typedef int64_t offset_t;
typedef int64_t daddr_t;
typedef int64_t blkcnt_t;
typedef int32_t blksize_t;
typedef int64_t time_t;
typedef long suseconds_t;
typedef int64_t hrtime_t;
typedef int32_t clockid_t;
typedef long key_t;
typedef int64_t rlim_t;
typedef uint32_t fflags_t;

struct timespec {
	time_t tv_sec;
	long tv_nsec;
};
struct timeval {
	time_t tv_sec;
	suseconds_t tv_usec;
};
typedef struct timespec timespec_t;
typedef struct timespec timestruc_t;

/* <netinet/in.h>; members of an address of IPv6 by the names of FreeBSD, illumos and Linux. */
typedef uint8_t sa_family_t;
typedef uint32_t socklen_t;
typedef uint16_t in_port_t;
typedef uint32_t in_addr_t;
typedef uint32_t ipaddr_t;
struct in_addr {
	in_addr_t s_addr;
};
struct in6_addr {
	union {
		uint8_t s6_addr[16];
		union {
			uint8_t __u6_addr8[16];
			uint16_t __u6_addr16[8];
			uint32_t __u6_addr32[4];
		} __u6_addr;
		union {
			uint8_t _S6_u8[16];
			uint32_t _S6_u32[4];
		} _S6_un;
		union {
			uint8_t u6_addr8[16];
			uint16_t u6_addr16[8];
			uint32_t u6_addr32[4];
		} in6_u;
	};
};
typedef struct in6_addr in6_addr_t;
inline int AF_INET = 2;
inline int AF_INET6 = 28;

/* Interfaces' hardware (RFC 826), as link_ntop() takes it. */
inline int ARPHRD_ETHER = 1;
inline int ARPHRD_INFINIBAND = 32;

/*
 * Addresses of links as text. Made of what every kernel has, so it is there whatever runs the program. Other hardware is an
 * illegal operation, as another family of addresses is for inet_ntop().
 */
inline string link_ntop_octet[uint8_t octet] = stringof(lltostr(0x100 + octet, 16) + 3);
inline string link_ntop_pair[uint8_t *at] =
	strjoin(strjoin(link_ntop_octet[at[0]], ":"), link_ntop_octet[at[1]]);
inline string link_ntop_four[uint8_t *at] =
	strjoin(strjoin(link_ntop_pair[at], ":"), link_ntop_pair[at + 2]);
inline string link_ntop_ether[uint8_t *at] =
	strjoin(strjoin(link_ntop_four[at], ":"), link_ntop_pair[at + 4]);
inline string link_ntop_eight[uint8_t *at] =
	strjoin(strjoin(link_ntop_four[at], ":"), link_ntop_four[at + 4]);
inline string link_ntop_infiniband[uint8_t *at] = strjoin(strjoin(strjoin(strjoin(
	link_ntop_eight[at], ":"), link_ntop_eight[at + 8]), ":"), link_ntop_four[at + 16]);
inline string link_ntop[int hardware, void *address] =
	hardware == ARPHRD_ETHER ? link_ntop_ether[(uint8_t *)address] :
	hardware == ARPHRD_INFINIBAND ? link_ntop_infiniband[(uint8_t *)address] :
	inet_ntop(-1, address);

/* <sys/dtrace.h>: what arg4 of dtrace:::ERROR says. */
inline int DTRACEFLT_UNKNOWN = 0;
inline int DTRACEFLT_BADADDR = 1;
inline int DTRACEFLT_BADALIGN = 2;
inline int DTRACEFLT_ILLOP = 3;
inline int DTRACEFLT_DIVZERO = 4;
inline int DTRACEFLT_NOSCRATCH = 5;
inline int DTRACEFLT_KPRIV = 6;
inline int DTRACEFLT_UPRIV = 7;
inline int DTRACEFLT_TUPOFLOW = 8;
inline int DTRACEFLT_BADSTACK = 9;

/* What subroutines take pointers to, and programs look not into. */
struct thread;
struct mtx;
struct rwlock;
struct sx;
struct file;
typedef struct file file_t;
