"""The laboratory as a library. Its names are the same in the repository and after `pip install`.

    from change_captioning_lab.captioner import PairCaptioner
    from change_captioning_lab.judge import judge
    from change_captioning_lab.metrics import score

An installed wheel contains all other packages inside this package (setup.py). Importing this
package imports none of them.
"""
