"""A certificate for localhost, by an authority that nobody else trusts."""
import subprocess


def certificates(place):
    """Files: the authority's certificate, and the pair of (certificate, key) of a server."""
    authority, authority_key = place.path("authority.pem"), place.path("authority.key")
    certificate, key, request = place.path("server.pem"), place.path("server.key"), place.path("server.csr")
    names = place.path("names.cnf")
    with open(names, "w", encoding="utf-8") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", authority_key, "-out", authority, "-days", "2", "-subj", "/CN=checks")
    openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key, "-CAcreateserial", "-days", "2",
            "-extfile", names, "-out", certificate)
    return authority, (certificate, key)


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
