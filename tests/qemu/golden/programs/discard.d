/* -x nspec=8 | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { self->s = speculation(); }
proc:proc_example::exec-success { speculate(self->s); trace(1); }
proc:proc_example::exec-success { discard(self->s); @ = count(); }
