/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%d\n", *(int *)8); }
ERROR { printf("action %d, offset %d, fault %d, address %x\n", arg2, arg3, arg4, arg5); }
