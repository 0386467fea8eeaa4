//! The section `[metrics]` of the configuration.

use nri_config::Config;

#[test]
fn an_address_of_other_hosts_is_an_error_with_its_line() {
    let error = Config::parse("[metrics]\nlisten = \"0.0.0.0:9464\"\n").unwrap_err();
    assert_eq!((error.line, error.column), (2, 10));
    assert!(error.message.contains("0.0.0.0:9464 is not a loopback address"), "{error}");
    // Earlier releases did not have the key, so a start does not accept it either.
    assert!(Config::parse_with_mistakes("[metrics]\nlisten = \"0.0.0.0:9464\"\n").is_err());
    assert_eq!(Config::parse("[metrics]\n").unwrap().metrics.listen, None);
}
