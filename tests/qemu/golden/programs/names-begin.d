/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
BEGIN { printf("[%s] [%s] [%s] [%s] %d\n", probeprov, probemod, probefunc, probename, id); } END { printf("%s %d\n", probename, id); } proc:proc_example::exec-success { n++; } END { trace(n); }
