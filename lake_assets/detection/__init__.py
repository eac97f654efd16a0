"""What has landed since the last scan, from listings or from notifications."""
