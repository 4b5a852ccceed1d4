//! Sets up TLS: which server certificates are accepted, and which client certificate is presented.
//!
//! kube's client fixes the client certificate when it is built, refuses X.509 version 1 client certificates, and accepts
//! no server certificate that is its own authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme};

use super::failure;
use super::kubeconfig_file::Cluster;
use crate::cluster::error::ClusterError;

/// A client certificate with its chain and key.
pub(super) type Identity = Arc<CertifiedKey>;

/// Decides which servers are trusted.
pub(super) type Verifier = Arc<dyn ServerCertVerifier>;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the TLS configuration of connections.
///
/// # Errors
///
/// Fails if the TLS library supports no protocol version.
pub(super) fn client_config(verifier: Verifier, identity: Option<&Identity>) -> Result<ClientConfig, ClusterError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| ClusterError::config(format!("unable to set up TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(match identity {
        Some(identity) => {
            let identity = CertifiedKey::clone(identity);
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        None => builder.with_no_client_auth(),
    })
}

/// Returns who trusts the servers of a cluster: its certificate authority, else those of the system.
///
/// # Errors
///
/// Fails if the authority cannot be read or holds no certificate.
pub(super) fn verifier(cluster: &Cluster) -> Result<Verifier, ClusterError> {
    let Cluster { certificate_authority: file, certificate_authority_data: data, .. } = cluster;
    if cluster.insecure_skip_tls_verify {
        return Ok(Arc::new(TrustsAnyone(provider())));
    }
    if file.is_empty() && data.is_empty() {
        let system = rustls_platform_verifier::Verifier::new(provider());
        let system = system.map_err(|error| {
            ClusterError::config(format!("unable to read the system's certificate authorities: {error}"))
                .hint("name the cluster's certificate authority with --certificate-authority")
        })?;
        return Ok(Arc::new(system));
    }
    let origin = if data.is_empty() {
        format!("certificate-authority {file:?}")
    } else {
        "certificate-authority-data".to_owned()
    };
    let bad = |problem: String| {
        ClusterError::config(format!("unable to read {origin}: {problem}"))
            .hint("it must hold certificates in PEM format")
    };
    let pem = authority(cluster).map_err(|error| bad(error.to_string()))?;
    let anchors = certificates(&pem).map_err(bad)?;
    let mut roots = RootCertStore::empty();
    // As in Go, certificates that cannot be parsed are skipped if another one can.
    if let (0, _) = roots.add_parsable_certificates(anchors.iter().cloned()) {
        return Err(bad("there is no valid certificate in it".to_owned()));
    }
    let by_authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| bad(error.to_string()))?;
    Ok(Arc::new(TrustsAuthority { by_authority, anchors }))
}

/// Returns the cluster's certificate authority in PEM format; empty if none is configured.
///
/// # Errors
///
/// Fails if its file cannot be read.
pub(super) fn authority(cluster: &Cluster) -> std::io::Result<Vec<u8>> {
    if !cluster.certificate_authority_data.is_empty() || cluster.certificate_authority.is_empty() {
        return Ok(cluster.certificate_authority_data.clone());
    }
    std::fs::read(&cluster.certificate_authority)
}

/// Returns whether a file holds certificates.
pub(super) fn reads_certificates(path: &str) -> bool {
    std::fs::read(path).is_ok_and(|pem| certificates(&pem).is_ok())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a client certificate and its key in PEM format.
///
/// # Errors
///
/// Returns what is wrong with them.
pub(super) fn identity(certificate: &[u8], key: &[u8]) -> Result<Identity, String> {
    let chain = certificates(certificate).map_err(|problem| format!("client certificate: {problem}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client key: {error}"))?;
    let key = provider().key_provider.load_private_key(key).map_err(|error| {
        format!("client key: {error}; P-256, P-384, Ed25519 and RSA keys of at least 2048 bits are supported, P-521 keys are not")
    })?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("the client key does not belong to the client certificate".to_owned())
        }
        // A certificate that this library cannot parse, such as one of version 1, is for the server to judge.
        _ => Ok(Arc::new(identity)),
    }
}

/// Trusts certificates that an authority has issued, and the authority's own.
#[derive(Debug)]
struct TrustsAuthority {
    by_authority: Arc<WebPkiServerVerifier>,
    anchors: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustsAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match &verified {
            // Go trusts a certificate that is itself among the trusted ones. Its validity has been checked before
            // either error, its name has not.
            Err(rustls::Error::InvalidCertificate(error))
                if (failure::is_authority_as_server(error) || *error == CertificateError::UnknownIssuer)
                    && self.anchors.iter().any(|anchor| anchor == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            _ => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Trusts every server, for `--insecure-skip-tls-verify`.
#[derive(Debug)]
struct TrustsAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustsAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cluster, verifier};

    #[test]
    fn an_authority_must_hold_certificates() {
        let file = |path: &str| Cluster { certificate_authority: path.to_owned(), ..Cluster::default() };
        let data = |text: &str| Cluster { certificate_authority_data: text.into(), ..Cluster::default() };
        const BROKEN: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
        for (cluster, message) in [
            (
                file("/no/such"),
                "unable to read certificate-authority \"/no/such\": No such file or directory (os error 2)",
            ),
            (data("hello"), "unable to read certificate-authority-data: there is no certificate in it"),
            (data(BROKEN), "unable to read certificate-authority-data: there is no valid certificate in it"),
        ] {
            assert_eq!(verifier(&cluster).unwrap_err().to_string(), message);
        }
    }
}
