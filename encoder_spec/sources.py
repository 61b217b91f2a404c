"""The bibliography: what the specification cites, and how a citation in a text finds its entry.

S0 to S4 are five introductions to the encoder, written in Chinese; where they err,
``encoder_spec.errata`` says so. Behind them stand the papers.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One text that the specification cites.

    ``key`` is how it is cited; ``year`` is 0 and ``url`` empty where the text does not tell.
    """

    key: str
    authors: str
    year: int
    title: str
    url: str = ""
    gloss: str = ""


def _arxiv(id: str) -> str:
    return f"https://arxiv.org/abs/{id}"


SOURCES: dict[str, Source] = {
    source.key: source
    for source in (
        Source("S0", "anonymous", 0, "Q3: 详细介绍 Encoder 层的各个子层", gloss="The sublayers of an encoder layer"),
        Source(
            "S1",
            "anonymous",
            0,
            "Transformer Encoder 的数学过程和代码示例",
            gloss="The mathematics of the Transformer encoder, with example code",
        ),
        Source(
            "S2",
            "anonymous",
            0,
            "Transformer Encoder（编码器）架构与原理详解",
            gloss="Architecture and principles of the Transformer encoder",
        ),
        Source("S3", "anonymous", 2025, "每层的子组件构成", gloss="The components of each layer"),
        Source(
            "S4",
            "禅与计算机程序设计艺术 (pen name)",
            0,
            "Transformer大模型实战 编码器总览",
            gloss="Large Transformer models in practice: overview of the encoder",
        ),
        Source(
            "Srivastava et al. 2014",
            "Nitish Srivastava, Geoffrey Hinton, Alex Krizhevsky, Ilya Sutskever, Ruslan Salakhutdinov",
            2014,
            "Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
            "https://jmlr.org/papers/v15/srivastava14a.html",
        ),
        Source(
            "He et al. 2015",
            "Kaiming He, Xiangyu Zhang, Shaoqing Ren, Jian Sun",
            2015,
            "Deep Residual Learning for Image Recognition",
            _arxiv("1512.03385"),
        ),
        Source(
            "Ba et al. 2016",
            "Jimmy Lei Ba, Jamie Ryan Kiros, Geoffrey E. Hinton",
            2016,
            "Layer Normalization",
            _arxiv("1607.06450"),
        ),
        Source(
            "Chen et al. 2016",
            "Tianqi Chen, Bing Xu, Chiyuan Zhang, Carlos Guestrin",
            2016,
            "Training Deep Nets with Sublinear Memory Cost",
            _arxiv("1604.06174"),
        ),
        Source(
            "Hendrycks & Gimpel 2016",
            "Dan Hendrycks, Kevin Gimpel",
            2016,
            "Gaussian Error Linear Units (GELUs)",
            _arxiv("1606.08415"),
        ),
        Source(
            "Vaswani et al. 2017",
            "Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, "
            "Łukasz Kaiser, Illia Polosukhin",
            2017,
            "Attention Is All You Need",
            _arxiv("1706.03762"),
        ),
        Source(
            "Dehghani et al. 2018",
            "Mostafa Dehghani, Stephan Gouws, Oriol Vinyals, Jakob Uszkoreit, Łukasz Kaiser",
            2018,
            "Universal Transformers",
            _arxiv("1807.03819"),
        ),
        Source(
            "Su et al. 2021",
            "Jianlin Su, Yu Lu, Shengfeng Pan, Ahmed Murtadha, Bo Wen, Yunfeng Liu",
            2021,
            "RoFormer: Enhanced Transformer with Rotary Position Embedding",
            _arxiv("2104.09864"),
        ),
        Source(
            "Nussbaum et al. 2024",
            "Zach Nussbaum, John X. Morris, Brandon Duderstadt, Andriy Mulyar",
            2024,
            "Nomic Embed: Training a Reproducible Long Context Text Embedder",
            _arxiv("2402.01613"),
        ),
        Source(
            "Warner et al. 2024",
            "Benjamin Warner, Antoine Chaffin, Benjamin Clavié, Orion Weller, Oskar Hallström, and others",
            2024,
            "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory Efficient, and Long "
            "Context Finetuning and Inference",
            _arxiv("2412.13663"),
        ),
        Source(
            "Touvron et al. 2021",
            "Hugo Touvron, Matthieu Cord, Alexandre Sablayrolles, Gabriel Synnaeve, Hervé Jégou",
            2021,
            "Going Deeper with Image Transformers",
            _arxiv("2103.17239"),
        ),
        Source(
            "Dehghani et al. 2023",
            "Mostafa Dehghani, Josip Djolonga, Basil Mustafa, Piotr Padlewski, Jonathan Heek and others",
            2023,
            "Scaling Vision Transformers to 22 Billion Parameters",
            _arxiv("2302.05442"),
        ),
        Source(
            "Press et al. 2021",
            "Ofir Press, Noah A. Smith, Mike Lewis",
            2021,
            "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
            _arxiv("2108.12409"),
        ),
        Source(
            "Beltagy et al. 2020",
            "Iz Beltagy, Matthew E. Peters, Arman Cohan",
            2020,
            "Longformer: The Long-Document Transformer",
            _arxiv("2004.05150"),
        ),
        Source(
            "Song et al. 2020",
            "Kaitao Song, Xu Tan, Tao Qin, Jianfeng Lu, Tie-Yan Liu",
            2020,
            "MPNet: Masked and Permuted Pre-training for Language Understanding",
            _arxiv("2004.09297"),
        ),
        Source(
            "Henry et al. 2020",
            "Alex Henry, Prudhvi Raj Dachapally, Shubham Pawar, Yuxuan Chen",
            2020,
            "Query-Key Normalization for Transformers",
            _arxiv("2010.04245"),
        ),
        Source(
            "He et al. 2020",
            "Pengcheng He, Xiaodong Liu, Jianfeng Gao, Weizhu Chen",
            2020,
            "DeBERTa: Decoding-enhanced BERT with Disentangled Attention",
            _arxiv("2006.03654"),
        ),
        Source(
            "He et al. 2021",
            "Kaiming He, Xinlei Chen, Saining Xie, Yanghao Li, Piotr Dollár, Ross Girshick",
            2021,
            "Masked Autoencoders Are Scalable Vision Learners",
            _arxiv("2111.06377"),
        ),
        Source(
            "Chen et al. 2021",
            "Xinlei Chen, Saining Xie, Kaiming He",
            2021,
            "An Empirical Study of Training Self-Supervised Vision Transformers",
            _arxiv("2104.02057"),
        ),
        Source(
            "Chen et al. 2023",
            "Zhe Chen, Jiannan Wu, Wenhai Wang and others",
            2023,
            "InternVL: Scaling up Vision Foundation Models and Aligning for Generic Visual-Linguistic Tasks",
            _arxiv("2312.14238"),
        ),
        Source(
            "Beyer et al. 2022",
            "Lucas Beyer, Xiaohua Zhai, Alexander Kolesnikov",
            2022,
            "Better plain ViT baselines for ImageNet-1k",
            _arxiv("2205.01580"),
        ),
        Source(
            "Reimers & Gurevych 2019",
            "Nils Reimers, Iryna Gurevych",
            2019,
            "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks",
            _arxiv("1908.10084"),
        ),
        Source(
            "Neelakantan et al. 2022",
            "Arvind Neelakantan, Tao Xu, Raul Puri and others",
            2022,
            "Text and Code Embeddings by Contrastive Pre-Training",
            _arxiv("2201.10005"),
        ),
        Source(
            "Wang et al. 2022a",
            "Hongyu Wang, Shuming Ma, Li Dong, Shaohan Huang, Dongdong Zhang, Furu Wei",
            2022,
            "DeepNet: Scaling Transformers to 1,000 Layers",
            _arxiv("2203.00555"),
        ),
        Source(
            "Wang et al. 2022b",
            "Liang Wang, Nan Yang, Xiaolong Huang and others",
            2022,
            "Text Embeddings by Weakly-Supervised Contrastive Pre-training",
            _arxiv("2212.03533"),
        ),
        Source(
            "Wang et al. 2023",
            "Liang Wang, Nan Yang, Xiaolong Huang, Linjun Yang, Rangan Majumder, Furu Wei",
            2023,
            "Improving Text Embeddings with Large Language Models",
            _arxiv("2401.00368"),
        ),
        Source(
            "Portes et al. 2023",
            "Jacob Portes, Alex Trott, Sam Havens, Daniel King, Abhinav Venigalla and others",
            2023,
            "MosaicBERT: A Bidirectional Encoder Optimized for Fast Pretraining",
            _arxiv("2312.17482"),
        ),
        Source(
            "Devlin et al. 2018",
            "Jacob Devlin, Ming-Wei Chang, Kenton Lee, Kristina Toutanova",
            2018,
            "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
            _arxiv("1810.04805"),
        ),
        Source(
            "Rush 2018",
            "Alexander M. Rush",
            2018,
            "The Annotated Transformer",
            "https://aclanthology.org/W18-2509/",
        ),
        Source(
            "Lan et al. 2019",
            "Zhenzhong Lan, Mingda Chen, Sebastian Goodman, Kevin Gimpel, Piyush Sharma, Radu Soricut",
            2019,
            "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
            _arxiv("1909.11942"),
        ),
        Source(
            "Lin et al. 2022",
            "Zeming Lin, Halil Akin, Roshan Rao, Brian Hie, Zhongkai Zhu and others",
            2022,
            "Language Models of Protein Sequences at the Scale of Evolution Enable Accurate Structure Prediction",
            "https://doi.org/10.1101/2022.07.20.500902",
        ),
        Source(
            "Liu et al. 2019",
            "Yinhan Liu, Myle Ott, Naman Goyal, Jingfei Du, Mandar Joshi, Danqi Chen, Omer Levy, Mike Lewis, "
            "Luke Zettlemoyer, Veselin Stoyanov",
            2019,
            "RoBERTa: A Robustly Optimized BERT Pretraining Approach",
            _arxiv("1907.11692"),
        ),
        Source(
            "Sanh et al. 2019",
            "Victor Sanh, Lysandre Debut, Julien Chaumond, Thomas Wolf",
            2019,
            "DistilBERT, a Distilled Version of BERT: Smaller, Faster, Cheaper and Lighter",
            _arxiv("1910.01108"),
        ),
        Source(
            "Lewis et al. 2019",
            "Mike Lewis, Yinhan Liu, Naman Goyal, Marjan Ghazvininejad, Abdelrahman Mohamed, Omer Levy, "
            "Veselin Stoyanov, Luke Zettlemoyer",
            2019,
            "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language Generation, Translation, "
            "and Comprehension",
            _arxiv("1910.13461"),
        ),
        Source(
            "Elfwing et al. 2017",
            "Stefan Elfwing, Eiji Uchibe, Kenji Doya",
            2017,
            "Sigmoid-Weighted Linear Units for Neural Network Function Approximation in Reinforcement Learning",
            _arxiv("1702.03118"),
        ),
        Source(
            "Vaswani et al. 2018",
            "Ashish Vaswani, Samy Bengio, Eugene Brevdo, François Chollet, Aidan N. Gomez, Stephan Gouws, Llion Jones, "
            "Łukasz Kaiser, Nal Kalchbrenner, Niki Parmar, Ryan Sepassi, Noam Shazeer, Jakob Uszkoreit",
            2018,
            "Tensor2Tensor for Neural Machine Translation",
            _arxiv("1803.07416"),
        ),
        Source(
            "Watanabe et al. 2018",
            "Shinji Watanabe, Takaaki Hori, Shigeki Karita, Tomoki Hayashi, Jiro Nishitoba, Yuya Unno, "
            "Nelson Enrique Yalta Soplin, Jahn Heymann, Matthew Wiesner, Nanxin Chen, Adithya Renduchintala, "
            "Tsubasa Ochiai",
            2018,
            "ESPnet: End-to-End Speech Processing Toolkit",
            _arxiv("1804.00015"),
        ),
        Source(
            "Mohamed et al. 2019",
            "Abdelrahman Mohamed, Dmytro Okhonko, Luke Zettlemoyer",
            2019,
            "Transformers with convolutional context for ASR",
            _arxiv("1904.11660"),
        ),
        Source(
            "Baevski et al. 2020",
            "Alexei Baevski, Henry Zhou, Abdelrahman Mohamed, Michael Auli",
            2020,
            "wav2vec 2.0: A Framework for Self-Supervised Learning of Speech Representations",
            _arxiv("2006.11477"),
        ),
        Source(
            "Hsu et al. 2021",
            "Wei-Ning Hsu, Benjamin Bolte, Yao-Hung Hubert Tsai, Kushal Lakhotia, Ruslan Salakhutdinov, "
            "Abdelrahman Mohamed",
            2021,
            "HuBERT: Self-Supervised Speech Representation Learning by Masked Prediction of Hidden Units",
            _arxiv("2106.07447"),
        ),
        Source(
            "Baevski et al. 2022",
            "Alexei Baevski, Wei-Ning Hsu, Qiantong Xu, Arun Babu, Jiatao Gu, Michael Auli",
            2022,
            "data2vec: A General Framework for Self-supervised Learning in Speech, Vision and Language",
            _arxiv("2202.03555"),
        ),
        Source(
            "Berg et al. 2021",
            "Axel Berg, Mark O'Connor, Miguel Tairum Cruz",
            2021,
            "Keyword Transformer: A Self-Attention Model for Keyword Spotting",
            _arxiv("2104.00769"),
        ),
        Source(
            "Kumar et al. 2023",
            "Manoj Kumar, Mostafa Dehghani, Neil Houlsby",
            2023,
            "Dual PatchNorm",
            _arxiv("2302.01327"),
        ),
        Source(
            "Clark et al. 2020",
            "Kevin Clark, Minh-Thang Luong, Quoc V. Le, Christopher D. Manning",
            2020,
            "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
            _arxiv("2003.10555"),
        ),
        Source(
            "Touvron et al. 2020",
            "Hugo Touvron, Matthieu Cord, Matthijs Douze, Francisco Massa, Alexandre Sablayrolles, Hervé Jégou",
            2020,
            "Training Data-Efficient Image Transformers & Distillation through Attention",
            _arxiv("2012.12877"),
        ),
        Source(
            "Zerveas et al. 2020",
            "George Zerveas, Srideepika Jayaraman, Dhaval Patel, Anuradha Bhamidipaty, Carsten Eickhoff",
            2020,
            "A Transformer-based Framework for Multivariate Time Series Representation Learning",
            _arxiv("2010.02803"),
        ),
        Source(
            "Nie et al. 2022",
            "Yuqi Nie, Nam H. Nguyen, Phanwadee Sinthong, Jayant Kalagnanam",
            2022,
            "A Time Series is Worth 64 Words: Long-term Forecasting with Transformers",
            _arxiv("2211.14730"),
        ),
        Source(
            "Radford et al. 2022",
            "Alec Radford, Jong Wook Kim, Tao Xu, Greg Brockman, Christine McLeavey, Ilya Sutskever",
            2022,
            "Robust Speech Recognition via Large-Scale Weak Supervision",
            _arxiv("2212.04356"),
        ),
        Source(
            "Radford et al. 2021",
            "Alec Radford, Jong Wook Kim, Chris Hallacy, Aditya Ramesh, Gabriel Goh, Sandhini Agarwal, "
            "Girish Sastry, Amanda Askell, Pamela Mishkin, Jack Clark, Gretchen Krueger, Ilya Sutskever",
            2021,
            "Learning Transferable Visual Models From Natural Language Supervision",
            _arxiv("2103.00020"),
        ),
        Source(
            "Shazeer 2019",
            "Noam Shazeer",
            2019,
            "Fast Transformer Decoding: One Write-Head is All You Need",
            _arxiv("1911.02150"),
        ),
        Source(
            "Ainslie et al. 2023",
            "Joshua Ainslie, James Lee-Thorp, Michiel de Jong, Yury Zemlyanskiy, Federico Lebrón, Sumit Sanghai",
            2023,
            "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
            _arxiv("2305.13245"),
        ),
        Source(
            "Sturua et al. 2024",
            "Saba Sturua, Isabelle Mohr, Mohammad Kalim Akram and others",
            2024,
            "jina-embeddings-v3: Multilingual Embeddings With Task LoRA",
            _arxiv("2409.10173"),
        ),
        Source(
            "Sanh et al. 2019",
            "Victor Sanh, Lysandre Debut, Julien Chaumond, Thomas Wolf",
            2019,
            "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
            _arxiv("1910.01108"),
        ),
        Source(
            "Clark et al. 2020",
            "Kevin Clark, Minh-Thang Luong, Quoc V. Le, Christopher D. Manning",
            2020,
            "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
            _arxiv("2003.10555"),
        ),
        Source(
            "Fang et al. 2023",
            "Yuxin Fang, Quan Sun, Xinggang Wang, Tiejun Huang, Xinlong Wang, Yue Cao",
            2023,
            "EVA-02: A Visual Representation for Neon Genesis",
            _arxiv("2303.11331"),
        ),
        Source(
            "Heo et al. 2024",
            "Byeongho Heo, Song Park, Dongyoon Han, Sangdoo Yun",
            2024,
            "Rotary Position Embedding for Vision Transformer",
            _arxiv("2403.13298"),
        ),
        Source(
            "Agrawal et al. 2024",
            "Pravesh Agrawal, Szymon Antoniak, Emma Bou Hanna and others",
            2024,
            "Pixtral 12B",
            _arxiv("2410.07073"),
        ),
        Source(
            "Bolya et al. 2025",
            "Daniel Bolya, Po-Yao Huang, Peize Sun and others",
            2025,
            "Perception Encoder: The best visual embeddings are not at the output of the network",
            _arxiv("2504.13181"),
        ),
        Source(
            "Kimi 2025",
            "Kimi Team",
            2025,
            "Kimi-VL Technical Report",
            _arxiv("2504.07491"),
        ),
        Source(
            "Siméoni et al. 2025",
            "Oriane Siméoni, Huy V. Vo, Maximilian Seitzer and others",
            2025,
            "DINOv3",
            _arxiv("2508.10104"),
        ),
        Source(
            "Oquab et al. 2023",
            "Maxime Oquab, Timothée Darcet, Théo Moutakanni and others",
            2023,
            "DINOv2: Learning Robust Visual Features without Supervision",
            _arxiv("2304.07193"),
        ),
        Source(
            "Darcet et al. 2023",
            "Timothée Darcet, Maxime Oquab, Julien Mairal, Piotr Bojanowski",
            2023,
            "Vision Transformers Need Registers",
            _arxiv("2309.16588"),
        ),
        Source(
            "Touvron et al. 2022",
            "Hugo Touvron, Matthieu Cord, Hervé Jégou",
            2022,
            "DeiT III: Revenge of the ViT",
            _arxiv("2204.07118"),
        ),
        Source(
            "Wang & Komatsuzaki 2021",
            "Ben Wang, Aran Komatsuzaki",
            2021,
            "GPT-J-6B: A 6 Billion Parameter Autoregressive Language Model",
            "https://github.com/kingoflolz/mesh-transformer-jax",
        ),
        Source(
            "Black et al. 2022",
            "Sid Black, Stella Biderman, Eric Hallahan and others",
            2022,
            "GPT-NeoX-20B: An Open-Source Autoregressive Language Model",
            _arxiv("2204.06745"),
        ),
        Source(
            "Liu et al. 2021a",
            "Ze Liu, Yutong Lin, Yue Cao, Han Hu, Yixuan Wei, Zheng Zhang, Stephen Lin, Baining Guo",
            2021,
            "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
            _arxiv("2103.14030"),
        ),
        Source(
            "Dai et al. 2021",
            "Zihang Dai, Hanxiao Liu, Quoc V. Le, Mingxing Tan",
            2021,
            "CoAtNet: Marrying Convolution and Attention for All Data Sizes",
            _arxiv("2106.04803"),
        ),
        Source(
            "Shaw et al. 2018",
            "Peter Shaw, Jakob Uszkoreit, Ashish Vaswani",
            2018,
            "Self-Attention with Relative Position Representations",
            _arxiv("1803.02155"),
        ),
        Source(
            "Bao et al. 2021",
            "Hangbo Bao, Li Dong, Songhao Piao, Furu Wei",
            2021,
            "BEiT: BERT Pre-Training of Image Transformers",
            _arxiv("2106.08254"),
        ),
        Source(
            "Liu et al. 2021b",
            "Ze Liu, Han Hu, Yutong Lin and others",
            2021,
            "Swin Transformer V2: Scaling Up Capacity and Resolution",
            _arxiv("2111.09883"),
        ),
        Source(
            "Ding et al. 2021",
            "Ming Ding, Zhuoyi Yang, Wenyi Hong and others",
            2021,
            "CogView: Mastering Text-to-Image Generation via Transformers",
            _arxiv("2105.13290"),
        ),
        Source(
            "Riviere et al. 2024",
            "Morgane Riviere, Shreya Pathak, Pier Giuseppe Sessa and others",
            2024,
            "Gemma 2: Improving Open Language Models at a Practical Size",
            _arxiv("2408.00118"),
        ),
        Source(
            "Vera et al. 2025",
            "Henrique Schechter Vera, Sahil Dua, Biao Zhang and others",
            2025,
            "EmbeddingGemma: Powerful and Lightweight Text Representations",
            _arxiv("2509.20354"),
        ),
        Source(
            "Zhai et al. 2023",
            "Xiaohua Zhai, Basil Mustafa, Alexander Kolesnikov, Lucas Beyer",
            2023,
            "Sigmoid Loss for Language Image Pre-Training",
            _arxiv("2303.15343"),
        ),
        Source(
            "Boizard et al. 2025",
            "Nicolas Boizard, Hippolyte Gisserot-Boukhlef, Duarte M. Alves and others",
            2025,
            "EuroBERT: Scaling Multilingual Encoders for European Languages",
            _arxiv("2503.05500"),
        ),
        Source(
            "Shazeer 2020",
            "Noam Shazeer",
            2020,
            "GLU Variants Improve Transformer",
            _arxiv("2002.05202"),
        ),
        Source(
            "Lee et al. 2018",
            "Juho Lee, Yoonho Lee, Jungtaek Kim, Adam R. Kosiorek, Seungjin Choi, Yee Whye Teh",
            2018,
            "Set Transformer: A Framework for Attention-based Permutation-Invariant Neural Networks",
            _arxiv("1810.00825"),
        ),
        Source(
            "Zhang & Sennrich 2019",
            "Biao Zhang, Rico Sennrich",
            2019,
            "Root Mean Square Layer Normalization",
            _arxiv("1910.07467"),
        ),
        Source(
            "Dosovitskiy et al. 2020",
            "Alexey Dosovitskiy, Lucas Beyer, Alexander Kolesnikov, Dirk Weissenborn, Xiaohua Zhai, "
            "Thomas Unterthiner, Mostafa Dehghani, Matthias Minderer, Georg Heigold, Sylvain Gelly, "
            "Jakob Uszkoreit, Neil Houlsby",
            2020,
            "An Image Is Worth 16x16 Words: Transformers for Image Recognition at Scale",
            _arxiv("2010.11929"),
        ),
        Source(
            "Raffel et al. 2020",
            "Colin Raffel, Noam Shazeer, Adam Roberts, Katherine Lee, Sharan Narang, Michael Matena, "
            "Yanqi Zhou, Wei Li, Peter J. Liu",
            2020,
            "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
            _arxiv("1910.10683"),
        ),
        Source(
            "Xiong et al. 2020",
            "Ruibin Xiong, Yunchang Yang, Di He, Kai Zheng, Shuxin Zheng, Chen Xing, Huishuai Zhang, "
            "Yanyan Lan, Liwei Wang, Tie-Yan Liu",
            2020,
            "On Layer Normalization in the Transformer Architecture",
            _arxiv("2002.04745"),
        ),
    )
}

_CITATION = re.compile(r"\b(S\d+)\b|\b([A-Z]\w+)(?: et al\.| & [A-Z]\w+)? (\d{4}[a-z]?)\b")


def cited(text: str) -> list[Source]:
    """The sources that a text cites, each once, in order: ``"Ba et al. 2016, §3; S0 §4"`` cites two.

    A paper is found by its first author and year; a letter behind the year distinguishes papers of one name and year.

    Raises:
        LookupError: if a citation has no entry.
    """
    found = []
    for own, author, year in _CITATION.findall(text):
        matches = [s for s in SOURCES.values() if s.key == own or (author and _opens(s, author, year))]
        if not matches:
            raise LookupError(f"no source is entered for the citation {own or f'{author} {year}'!r} in {text!r}")
        found += matches
    return list(dict.fromkeys(found))


def _opens(source: Source, author: str, year: str) -> bool:
    return source.key.split()[0] == author and source.key.endswith(f" {year}")
