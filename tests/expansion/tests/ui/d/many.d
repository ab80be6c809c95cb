provider many {
    probe start(int, int, int, int, int, int, int, int, int, int, int);
};
