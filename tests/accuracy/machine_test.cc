#include "tests/accuracy/machine.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CatalogMachine, NamesOfDevices) {
  const auto machine = [](const char* gpu, const char* link = "") {
    Measurement::Machine stated;
    stated.gpu = gpu;
    stated.intra_node_link = link;
    return CatalogMachineOf(stated).value_or("none");
  };
  EXPECT_EQ(machine("A100-SXM4-80GB"), "dgx-a100-80g");
  EXPECT_EQ(machine("A100 (8 per node)"), "dgx-a100-80g");
  EXPECT_EQ(machine("A100-40GB"), "dgx-a100-40g");
  EXPECT_EQ(machine("A100 SXM4 40 GB"), "dgx-a100-40g");
  EXPECT_EQ(machine("A100 (40 GB)"), "dgx-a100-40g");
  EXPECT_EQ(machine("A100 PCIe 40 GB"), "lonestar6");
  EXPECT_EQ(machine("A100-SXM4-40GB (Perlmutter)"), "perlmutter");
  EXPECT_EQ(machine("A800-80GB"), "hgx-a800");
  EXPECT_EQ(machine("h100-sxm5"), "dgx-h100");
  EXPECT_EQ(machine("GB200 (NVL72)"), "gb200-nvl72");
  EXPECT_EQ(machine("B200-SXM"), "dgx-b200");
  EXPECT_EQ(machine("V100-SXM3-32GB (DGX-2)"), "dgx2-v100");
  EXPECT_EQ(machine("V100-16GB (Summit)"), "summit");
  EXPECT_EQ(machine("MI250X GCD (Frontier)"), "frontier");
  // A device that the catalog does not have gets no machine; no similar device replaces it.
  EXPECT_EQ(machine("see note"), "none");
  EXPECT_EQ(machine("GH200-96GB"), "none");
  EXPECT_EQ(machine("GB300 (NVL72)"), "gb300-nvl72");
  EXPECT_EQ(machine("B300"), "dgx-b300");
  EXPECT_EQ(machine("MI300X"), "mi300x");
  EXPECT_EQ(machine("MI300A"), "none");
  // PCIe cards and modules are different machines.
  EXPECT_EQ(machine("A100-PCIe-80GB"), "local-a100-nvlink-pairs");
  EXPECT_EQ(machine("A100-80GB", "PCIe 4.0"), "local-a100-nvlink-pairs");
  EXPECT_EQ(machine("A100-SXM4-80GB", "NVLink/PCIe"), "dgx-a100-80g");
  EXPECT_EQ(machine("A100-80GB", "NVLink pairs"), "local-a100-nvlink-pairs");
  EXPECT_EQ(machine("A100-40GB (Lonestar6)", "PCIe/no full NVLink (3 GPUs per node)"), "lonestar6");
  EXPECT_EQ(machine("H100 PCIe 80GB"), "none");
  EXPECT_EQ(machine("H100-NVL-94GB"), "none");
  EXPECT_EQ(machine("H200 NVL"), "none");
  EXPECT_EQ(machine("H800 PCIe"), "none");
  EXPECT_EQ(machine("A800-80GB", "PCIe"), "none");
  EXPECT_EQ(machine("L40S"), "none");
  EXPECT_EQ(machine("H100 NVLink"), "dgx-h100");
  EXPECT_EQ(machine("V100-PCIe-16GB"), "none");
  Measurement::Machine tpu;
  tpu.gpu = "TPU v4";
  EXPECT_THAT(std::string(CatalogMachineOf(tpu).status().message()), HasSubstr("'TPU v4'"));
}

TEST(Interfaces, AsSourcesWordThem) {
  const auto expect = [](const char* text, int64_t per_node, double rate) {
    SCOPED_TRACE(text);
    const Interfaces parsed = ParseInterfaces(text, 8);
    EXPECT_EQ(parsed.per_node, per_node);
    EXPECT_DOUBLE_EQ(parsed.bytes_per_second, rate);
  };
  expect("8x200 Gb/s HDR InfiniBand per node", 8, 25e9);
  expect("4x200 Gb/s HDR InfiniBand per node (800 Gb/s in the simulator config)", 4, 25e9);
  expect("4x ConnectX-6 HDR InfiniBand per node", 4, 25e9);
  expect("1600 Gb/s RoCE per node", 8, 25e9);
  expect("2 Tb/s RoCE per node", 8, 31.25e9);
  expect("400 Gb/s RDMA per GPU", 8, 50e9);
  expect("12.5 GB/s (peak, per the paper)", 1, 12.5e9);
  expect("8 x 200 Gbps", 8, 25e9);
  expect("100GbE", 8, 12.5e9 / 8);
  EXPECT_TRUE(ParseInterfaces("100GbE", 8).guessed);
  EXPECT_FALSE(ParseInterfaces("1600 Gb/s RoCE per node", 8).guessed);
  expect("3.2 Tbps EFA", 8, 50e9);
  expect("25 GB/s per GPU", 8, 25e9);
  expect("InfiniBand NDR, 400Gb/s/GPU", 8, 50e9);
  // The rate of one card; the number of cards is not stated.
  expect("NDR InfiniBand", 0, 50e9);
  expect("InfiniBand EDR 100Gbps", 0, 12.5e9);
  expect("800 Gb/s InfiniBand per node", 8, 12.5e9);
  // A measured range counts with its mean, and the rate is marked as reached.
  expect("Omni-Path (nominal 400 Gb/s per node; measured all-reduce 20-60 Gb/s)", 1, 5e9);
  EXPECT_TRUE(ParseInterfaces("Omni-Path (measured all-reduce 20-60 Gb/s)", 4).reached);
  EXPECT_FALSE(ParseInterfaces("2x100 Gb/s", 4).reached);
  // NCCL uses only one of several Omni-Path cards.
  EXPECT_EQ(ParseInterfaces("4x Omni-Path 100 Gb/s per node", 8).per_node, 1);
  EXPECT_EQ(ParseInterfaces("4x Omni-Path 100 Gb/s per node", 8).bytes_per_second, 12.5e9);
  EXPECT_EQ(ParseInterfaces("4x100 Gb/s RoCE per node", 8).per_node, 4);
  expect("RoCE RDMA", 0, 0);
  expect("", 0, 0);
  expect("0 Gb/s", 0, 0);
  expect("99999999x1 Gb/s", 8, 1e9 / 64);
}

Cluster Base() {
  Cluster base;
  base.set_name("base");
  base.set_nodes(4);
  base.set_devices_per_node(8);
  base.set_nics_per_node(8);
  base.mutable_inter_node()->set_bytes_per_second(1e10);
  base.mutable_device()->set_memory_bytes(int64_t{80} << 30);
  base.mutable_device()->set_memory_bytes_per_second(2e12);
  Peak* peak = base.mutable_device()->add_peaks();
  peak->set_dtype(BF16);
  peak->set_flops_per_second(1e15);
  base.mutable_node_links()->add_direct()->set_second(7);
  return base;
}

TEST(Machine, TakesWhatTheRunStates) {
  Measurement run;
  run.machine.gpu = "A100";
  run.machine.gpus = 20;
  run.machine.gpus_per_node = 4;
  std::vector<std::string> assumptions;
  auto cluster = MachineOf(run, Base(), &assumptions);
  ASSERT_TRUE(cluster.ok());
  EXPECT_EQ(cluster->nodes(), 5);
  EXPECT_EQ(cluster->devices_per_node(), 4);
  // The direct links of the base apply only to nodes that have as many devices as the base's nodes.
  EXPECT_EQ(cluster->node_links().direct_size(), 0);
  // The run has as many interfaces per device as the base.
  EXPECT_EQ(cluster->nics_per_node(), 4);
  ASSERT_EQ(assumptions.size(), 1u);
  EXPECT_THAT(assumptions[0], HasSubstr("4 interfaces of 10 GB/s per node, as base has"));
  run.machine.inter_node_link = "2x100 Gb/s per node";
  run.machine.gpu = "H100-SXM 96GB HBM2e 2.4TB/s 500W";
  assumptions.clear();
  cluster = MachineOf(run, Base(), &assumptions);
  ASSERT_TRUE(cluster.ok());
  EXPECT_THAT(assumptions, ElementsAre("0.89 of the clock with 500 W"));
  EXPECT_NEAR(cluster->device().peaks(0).flops_per_second(), 0.8939 * 1e15, 1e11);
  EXPECT_EQ(cluster->nics_per_node(), 2);
  EXPECT_DOUBLE_EQ(cluster->inter_node().bytes_per_second(), 0.9 * 12.5e9);
  EXPECT_EQ(cluster->device().memory_bytes(), int64_t{96} << 30);
  EXPECT_DOUBLE_EQ(cluster->device().memory_bytes_per_second(), 2.4e12);
  // A machine that is a single node has no network figures to fall back on. Cards have bridges only if the run mentions
  // bridges.
  Cluster cards = Base();
  cards.mutable_inter_node()->Clear();
  cards.mutable_intra_node()->set_kind(PCIE);
  cards.set_devices_per_node(4);
  run.machine.inter_node_link = "Ethernet";
  EXPECT_THAT(std::string(MachineOf(run, cards, &assumptions).status().message()),
              HasSubstr("cluster.inter_node_link = 'Ethernet' states no rate"));
  run.machine.inter_node_link = "HDR";
  assumptions.clear();
  EXPECT_EQ(MachineOf(run, cards, &assumptions)->nics_per_node(), 8);
  EXPECT_THAT(assumptions, testing::Contains("8 interfaces per node, as base has"));
  run.machine.gpus = 4;
  EXPECT_EQ(MachineOf(run, cards, &assumptions)->node_links().direct_size(), 0);
  run.machine.intra_node_link = "NVLink pairs";
  EXPECT_EQ(MachineOf(run, cards, &assumptions)->node_links().direct_size(), 1);
  // The run uses only some devices of its node.
  run.machine.gpus = 2;
  EXPECT_EQ(MachineOf(run, Base(), &assumptions)->devices_per_node(), 2);
  EXPECT_EQ(MachineOf(run, Base(), &assumptions)->nodes(), 1);
  run.machine.gpus = int64_t{1} << 40;
  EXPECT_FALSE(MachineOf(run, Base(), &assumptions).ok());
  run.machine.gpus.reset();
  EXPECT_THAT(std::string(MachineOf(run, Base(), &assumptions).status().message()), HasSubstr("cluster.gpus"));
}

}  // namespace
}  // namespace weft
