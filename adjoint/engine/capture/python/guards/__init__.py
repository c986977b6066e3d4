"""What a recording depends on, and how all of it is looked at in a microsecond.

Of what Python read on the way. Shapes, dtypes and strides of arguments are a call's key instead:
`capture/signature.py`.
"""
