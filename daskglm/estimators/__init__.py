"""What users call: estimators in scikit-learn's style, `fit`, cross-validation, paths, saved
models.
"""
