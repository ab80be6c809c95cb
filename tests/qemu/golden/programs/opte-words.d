/* -q | exec /usr/bin/true /usr/bin/true */
opte:::flow-expired { printf("%d\n", arg4 - arg3); }
opte:::ft-entry-invalidated { printf("%d\n", arg0); }
opte:::layer-process-entry { printf("%d %s %s\n", arg0, stringof(arg1), stringof(arg2)); }
opte:::rule-deny { printf("%s %s %d\n", stringof(arg0), stringof(arg1), arg2); }
opte:::uft-hit { printf("%d %d\n", arg0, arg4 - arg3); }
opte:::uft-tcp-closed { printf("%d\n", arg0); }
opte:::tcp-flow-drop { printf("%d %d %x\n", arg2, arg3, arg4); }
xde:::bad-packet { printf("%d %d\n", arg1, arg4); }
xde:::guest-loopback { printf("%d %d\n", arg2, arg3); }
xde:::routecache-full, xde:::routecache-insert { printf("%d %d\n", arg2, arg3); }
xde:::mcast-tx, xde:::mcast-rx { printf("%d %d %d\n", arg0, arg2, arg3); }
xde:::mcast-local-delivery { printf("%d %d %d %s\n", arg0, arg2, arg3, substr(stringof((char *)arg4), 0, 5)); }
xde:::mcast-map-set { printf("%d %d %d\n", arg0, arg2, arg4); }
xde:::mcast-fwd-set { printf("%d\n", arg2); }
xde:::mcast-subscribe { printf("%d %d %d\n", arg1, arg2, arg4); }
xde:::mcast-tx-pullup-fail, xde:::mcast-rx-pullup-fail { printf("%d\n", arg0); }
xde:::mcast-source-filtered { printf("%d %d %s\n", arg0, arg3, stringof(arg4)); }
