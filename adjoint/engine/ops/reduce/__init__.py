"""Operations along dimensions: sums, extremes, statistics, scans, softmax."""
