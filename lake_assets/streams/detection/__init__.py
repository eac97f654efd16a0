"""What has landed since the last scan, from listings or from notifications.

Functions that list raise StorageError if the store cannot be listed.
"""
