//! A request of the API server, and what it is answered: AdmissionReview, v1 and v1beta1.
