//! Which addresses are public. Pure; the operator's allowlist is in `rules`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// IPv4 networks that are not public: IANA's special-purpose registry, multicast, and addresses that clouds reserve.
const NON_PUBLIC_V4: &[Ipv4Net] = &[
    v4([0, 0, 0, 0], 8),        // this network; many systems connect 0.0.0.0 to themselves
    v4([10, 0, 0, 0], 8),       // private
    v4([100, 64, 0, 0], 10),    // shared by carriers; Alibaba's metadata
    v4([127, 0, 0, 0], 8),      // loopback
    v4([168, 63, 129, 16], 32), // Azure's host agent, which lies in public space
    v4([169, 254, 0, 0], 16),   // link-local; metadata of most clouds
    v4([172, 16, 0, 0], 12),    // private
    v4([192, 0, 0, 0], 24),     // protocol assignments; Oracle's metadata
    v4([192, 0, 2, 0], 24),     // documentation
    v4([192, 88, 99, 0], 24),   // relays of 6to4, withdrawn
    v4([192, 168, 0, 0], 16),   // private
    v4([198, 18, 0, 0], 15),    // benchmarks
    v4([198, 51, 100, 0], 24),  // documentation
    v4([203, 0, 113, 0], 24),   // documentation
    v4([224, 0, 0, 0], 4),      // multicast
    v4([240, 0, 0, 0], 4),      // reserved, and broadcast
];

/// The block of global unicast IPv6 addresses. Everything else is not public: loopback, unspecified, unique local,
/// link-local, site-local, multicast, IPv4-compatible, local-use translation.
const PUBLIC_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

/// Networks within [`PUBLIC_V6`] that are not public.
const NON_PUBLIC_V6: &[Ipv6Net] = &[
    v6([0x2001, 0, 0, 0], 23),     // protocol assignments: Teredo, benchmarks, ORCHID
    v6([0x2001, 0xdb8, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0], 16),     // 6to4: carries any IPv4 address
    v6([0x3ffe, 0, 0, 0], 16),     // the former 6bone
    v6([0x3fff, 0, 0, 0], 20),     // documentation
];

/// The NAT64 prefix, under which DNS64 maps IPv4 addresses for hosts that have only IPv6.
const NAT64_PREFIX: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c, d]: [u16; 4], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

/// Whether an address is public; for an IPv6 address that maps an IPv4 address, whether that is public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if NAT64_PREFIX.contains(&address) => is_public_v4(last_four(address)),
        IpAddr::V6(address) => {
            PUBLIC_V6.contains(&address) && !NON_PUBLIC_V6.iter().any(|net| net.contains(&address))
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NON_PUBLIC_V4.iter().any(|net| net.contains(&address))
}

fn last_four(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.17",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "2001:200::1",
            "3fff:1000::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn addresses_that_are_not_public() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
