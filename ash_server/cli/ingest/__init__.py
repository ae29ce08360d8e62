r"""`ash ingest`: store a stream while passing it from one program to another.

Two threads. The main thread passes every byte on at once, regardless of the server, and adds it to a queue. The sender
thread sends whole lines from the front of the queue, and removes them once the server has acknowledged them. A line's
id is derived from the run and the line's number, so a line that is sent again after a lost response, even by another
process, is stored once.
"""
