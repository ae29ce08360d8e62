// A placeholder: the page is written elsewhere.
