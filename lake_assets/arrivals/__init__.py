"""What has landed since the last look: which partitions changed, told from listings or from notifications."""
