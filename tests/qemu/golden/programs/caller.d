/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%a\n", caller); sym(caller); mod(caller); func(caller); }
