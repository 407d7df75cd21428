"""`make stream-poison`: one record of many makes a stream fail. It is named, kept aside, and all others go through."""
