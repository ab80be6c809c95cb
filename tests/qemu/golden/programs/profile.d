/* -q | sleep 60 */
profile-97 { @[arg0 != 0 || arg1 != 0] = min(1); }
tick-200ms /ticks++ == 3/ { exit(0); }
